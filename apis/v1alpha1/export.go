package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIExport offers resources that CustomResourceDefinitions of its space define to other
// spaces, whose APIBindings take them. Who has the right to the content of the export sees
// and writes the objects of all spaces that have bound it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Bindings",type=integer,JSONPath=`.status.bindings`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is offered.
	Spec APIExportSpec `json:"spec"`
	// Status says whether it can be bound, and where it is served.
	// +optional
	Status APIExportStatus `json:"status,omitempty,omitzero"`
}

// APIExportSpec says what an export offers, and what its provider asks for.
type APIExportSpec struct {
	// Resources that CustomResourceDefinitions of the space define. A resource that is taken
	// away stays where it is bound: its objects can be read and deleted there, and are
	// written again when it comes back.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Resources []ExportedResource `json:"resources,omitempty"`
	// Claims are what else the provider asks to see in the spaces of its consumers, of kinds
	// that every space has. Each consumer accepts or rejects each of them.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Claims []APIClaim `json:"claims,omitempty"`
}

// ExportedResource names a resource by its group and plural name.
type ExportedResource struct {
	// Group is the API group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Resource is the plural name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
}

// APIClaim asks for objects of a kind that every space has.
type APIClaim struct {
	// Group is the API group; empty for the core group.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Resource is the plural name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// Selector says by their labels which objects; all when absent.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Verbs are what the provider may do with them: get, list, watch, create, update, patch,
	// delete, deletecollection; or * for all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=get;list;watch;create;update;patch;delete;deletecollection;*
	Verbs []string `json:"verbs"`
	// ReferredBy says where exported objects name claimed ones, in their own namespace. In a
	// slice a claimed object that no exported one owns follows what refers to it like this.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	ReferredBy []ClaimReference `json:"referredBy,omitempty"`
}

// ClaimReference is a field of an exported resource that has the name of a claimed object.
type ClaimReference struct {
	ExportedResource `json:",inline"`
	// Path is the field: names behind dots, such as .spec.credentials.secretName.
	// +kubebuilder:validation:Pattern=`^(\.[A-Za-z_][A-Za-z0-9_-]*){1,8}$`
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
}

// APIExportStatus is what the hub says of an export.
type APIExportStatus struct {
	// Conditions: Ready says whether all that is offered can be bound.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Bindings is how many spaces have bound it.
	// +optional
	Bindings int32 `json:"bindings,omitempty"`
	// URL is where the objects of all consumers are served.
	// +optional
	URL string `json:"url,omitempty"`
}

// APIExportList is a list of APIExports.
//
// +kubebuilder:object:root=true
type APIExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the exports.
	Items []APIExport `json:"items"`
}
