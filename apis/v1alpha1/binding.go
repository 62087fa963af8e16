package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIBinding makes the resources of an APIExport available in its space. When it is deleted
// their objects in the space are deleted first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Space",type=string,JSONPath=`.spec.export.space`
// +kubebuilder:printcolumn:name="Export",type=string,JSONPath=`.spec.export.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Claims",type=string,JSONPath=`.status.conditions[?(@.type=="ClaimsDecided")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is bound.
	Spec APIBindingSpec `json:"spec"`
	// Status says what the space has by it.
	// +optional
	Status APIBindingStatus `json:"status,omitempty,omitzero"`
}

// APIBindingSpec says what is bound, and what its provider may see.
type APIBindingSpec struct {
	// Export is what is bound. Another one takes another binding.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a binding is of one export: delete it, and create another"
	Export ExportReference `json:"export"`
	// Claims accept and reject what the provider asks for. What is not named is not
	// accepted. What was accepted is what the export claimed then: of a claim that grows
	// later, the provider gets no more until it is accepted anew, which rejecting it first does.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Claims []ClaimDecision `json:"claims,omitempty"`
}

// ExportReference names an APIExport.
type ExportReference struct {
	// Space is that of the provider.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Space string `json:"space"`
	// Name is that of the export.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ClaimDecision accepts or rejects a claim.
type ClaimDecision struct {
	// Group is the API group; empty for the core group.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Resource is the plural name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// State is Accepted or Rejected.
	// +kubebuilder:validation:Enum=Accepted;Rejected
	State ClaimState `json:"state"`
}

// ClaimState is what a consumer says of a claim.
type ClaimState string

const (
	// ClaimAccepted lets the provider have what it claims.
	ClaimAccepted ClaimState = "Accepted"
	// ClaimRejected does not.
	ClaimRejected ClaimState = "Rejected"
)

// APIBindingStatus is what the hub says of a binding.
type APIBindingStatus struct {
	// Conditions: Ready says whether all that the export offers is bound and can be written,
	// ClaimsDecided whether each claim of the export is accepted, as it is now, or rejected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// SpaceUID is the UID of the provider's space; absent for root. A later space of the
	// name is another provider.
	// +optional
	SpaceUID string `json:"spaceUID,omitempty"`
	// Resources are those that belong to the binding in its space, whatever becomes of the
	// export: until it is deleted nothing else can define them there.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	Resources []BoundResource `json:"resources,omitempty"`
	// Claims are what has been accepted, as it was claimed then.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	Claims []APIClaim `json:"claims,omitempty"`
}

// BoundResource is a resource of a space by a binding, with what it takes to read its objects
// without its definition.
type BoundResource struct {
	ExportedResource `json:",inline"`
	// Kind, ListKind, Singular and ShortNames are its names.
	Kind     string `json:"kind"`
	ListKind string `json:"listKind"`
	Singular string `json:"singular"`
	// +optional
	// +listType=atomic
	ShortNames []string `json:"shortNames,omitempty"`
	// Namespaced says that its objects are in namespaces.
	// +optional
	Namespaced bool `json:"namespaced,omitempty"`
	// Versions are those that were served last.
	// +listType=atomic
	Versions []string `json:"versions"`
	// StorageVersion is the one that was stored last.
	StorageVersion string `json:"storageVersion"`
}

// APIBindingList is a list of APIBindings.
//
// +kubebuilder:object:root=true
type APIBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the bindings.
	Items []APIBinding `json:"items"`
}

// Conditions of APIExports, APIBindings and APIExportViews, besides Ready.
const (
	// ConditionClaimsDecided of an APIBinding is True when each claim of the export is
	// accepted as it is, or rejected.
	ConditionClaimsDecided = "ClaimsDecided"
)

// Reasons of the condition Ready of APIExports, APIBindings and APIExportViews.
const (
	// ReasonServed: all is there.
	ReasonServed = "Served"
	// ReasonNoSuchSpace: the provider's space does not exist.
	ReasonNoSuchSpace = "NoSuchSpace"
	// ReasonAnotherSpace: the provider's space is another one of the same name.
	ReasonAnotherSpace = "AnotherSpace"
	// ReasonNoSuchExport: the export does not exist.
	ReasonNoSuchExport = "NoSuchExport"
	// ReasonNotExported: the export no longer has a resource that is bound.
	ReasonNotExported = "NotExported"
	// ReasonNoDefinition: no established CustomResourceDefinition defines a resource.
	ReasonNoDefinition = "NoDefinition"
	// ReasonIncompatible: a resource is defined again, with other names or another scope.
	ReasonIncompatible = "Incompatible"
	// ReasonTaken: something else in the space has a resource, kind or another of its names.
	ReasonTaken = "Taken"
	// ReasonUnbinding: the binding is being deleted, and objects are left.
	ReasonUnbinding = "Unbinding"
	// ReasonUnclaimable: a claim is of a kind that not every space has, or that nobody may claim.
	ReasonUnclaimable = "Unclaimable"
	// ReasonNoSuchField: a version that is served has no such field to split by.
	ReasonNoSuchField = "NoSuchField"
	// ReasonFieldDefaulted: a version that is served has a default for the field to split by.
	ReasonFieldDefaulted = "FieldDefaulted"
	// ReasonUndecided, of ClaimsDecided: the message names claims to accept or reject.
	ReasonUndecided = "Undecided"
	// ReasonDecided, of ClaimsDecided.
	ReasonDecided = "Decided"
)
