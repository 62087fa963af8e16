package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIBinding makes the resources of an APIExport available in its space. Deleting the binding first
// deletes the objects of these resources in the space.
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

	// Spec defines the bound export, and the claims that are accepted.
	Spec APIBindingSpec `json:"spec"`
	// Status reports the bound resources and the accepted claims.
	// +optional
	Status APIBindingStatus `json:"status,omitempty,omitzero"`
}

// APIBindingSpec defines the bound export, and what its provider may access.
type APIBindingSpec struct {
	// Export is the bound export. To bind another one, create another binding.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a binding is of one export: delete it, and create another"
	Export ExportReference `json:"export"`
	// Claims are the decisions on the claims of the export. A claim without a decision is not
	// accepted. A decision applies to the claim as it was when it was accepted. If the claim grows
	// later, the provider gets no more until the consumer rejects it and accepts it again.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Claims []ClaimDecision `json:"claims,omitempty"`
}

// ExportReference names an APIExport.
type ExportReference struct {
	// Space is the space of the provider.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Space string `json:"space"`
	// Name is the name of the export.
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

// ClaimState is the decision of a consumer on a claim.
type ClaimState string

const (
	// ClaimAccepted gives the provider the claimed access.
	ClaimAccepted ClaimState = "Accepted"
	// ClaimRejected refuses the claimed access.
	ClaimRejected ClaimState = "Rejected"
)

// APIBindingStatus is the observed state of a binding.
type APIBindingStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready and ClaimsDecided. Ready: all resources of the export are bound and can
	// be written. ClaimsDecided: each claim of the export is either rejected, or accepted in its
	// present form.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// SpaceUID is the UID of the provider's space; absent for root. A later space of the same name
	// is a different provider.
	// +optional
	SpaceUID string `json:"spaceUID,omitempty"`
	// Resources are the resources that belong to the binding in its space, even if the export no
	// longer has them. Until the binding is deleted, no other object can define them there.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	Resources []BoundResource `json:"resources,omitempty"`
	// Claims are the accepted claims, as they were when they were accepted.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	Claims []APIClaim `json:"claims,omitempty"`
}

// BoundResource is a resource that a binding adds to a space. It contains all that the hub needs to
// read objects of the resource without its definition.
type BoundResource struct {
	ExportedResource `json:",inline"`
	// Kind, ListKind, Singular and ShortNames are the names of the resource.
	Kind     string `json:"kind"`
	ListKind string `json:"listKind"`
	Singular string `json:"singular"`
	// +optional
	// +listType=atomic
	ShortNames []string `json:"shortNames,omitempty"`
	// Namespaced reports whether the resource is namespaced.
	// +optional
	Namespaced bool `json:"namespaced,omitempty"`
	// Versions are the versions that were last served.
	// +listType=atomic
	Versions []string `json:"versions"`
	// StorageVersion is the version that was last stored.
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

// Conditions of APIExports, APIBindings and APIExportViews, in addition to Ready.
const (
	// ConditionClaimsDecided of an APIBinding is True when each claim of the export is rejected, or
	// accepted in its present form.
	ConditionClaimsDecided = "ClaimsDecided"
)

// Reasons of the condition Ready of APIExports, APIBindings and APIExportViews.
const (
	// ReasonServed: the hub serves all resources or slices.
	ReasonServed = "Served"
	// ReasonNoSuchSpace: the provider's space does not exist.
	ReasonNoSuchSpace = "NoSuchSpace"
	// ReasonAnotherSpace: the provider's space was deleted, and another one of the same name
	// exists.
	ReasonAnotherSpace = "AnotherSpace"
	// ReasonNoSuchExport: the export does not exist.
	ReasonNoSuchExport = "NoSuchExport"
	// ReasonNotExported: the export no longer offers a bound resource.
	ReasonNotExported = "NotExported"
	// ReasonNoDefinition: no established CustomResourceDefinition defines a resource.
	ReasonNoDefinition = "NoDefinition"
	// ReasonIncompatible: a resource was defined again with other names or another scope.
	ReasonIncompatible = "Incompatible"
	// ReasonTaken: another definition in the space uses the resource name, kind or another name.
	ReasonTaken = "Taken"
	// ReasonUnbinding: the binding is being deleted, and objects of its resources remain.
	ReasonUnbinding = "Unbinding"
	// ReasonUnclaimable: a claim selects a kind that not every space has, or that can't be claimed.
	ReasonUnclaimable = "Unclaimable"
	// ReasonNoSuchField: a served version does not have the field that splits objects.
	ReasonNoSuchField = "NoSuchField"
	// ReasonFieldDefaulted: a served version has a default for the field that splits objects.
	ReasonFieldDefaulted = "FieldDefaulted"
	// ReasonUndecided, of ClaimsDecided: the message lists the claims to accept or reject.
	ReasonUndecided = "Undecided"
	// ReasonDecided, of ClaimsDecided: each claim is accepted or rejected.
	ReasonDecided = "Decided"
)
