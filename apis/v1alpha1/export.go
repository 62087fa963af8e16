package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIExport offers resources that CustomResourceDefinitions of its space define to other spaces.
// These use them by APIBindings. A user with rights to the content of the export can read and write
// the exported objects of all spaces that have bound it.
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

	// Spec defines the offered resources.
	Spec APIExportSpec `json:"spec"`
	// Status reports whether the export can be bound, and its URL.
	// +optional
	Status APIExportStatus `json:"status,omitempty,omitzero"`
}

// APIExportSpec defines the resources that an export offers, and the claims of its provider.
type APIExportSpec struct {
	// Resources are resources that CustomResourceDefinitions of the space define. A resource that
	// is removed from the list stays in the spaces that have bound it. Its objects can be read and
	// deleted there, and written again after the resource is added back.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Resources []ExportedResource `json:"resources,omitempty"`
	// Claims are kinds of all spaces whose objects the provider requests to access in the spaces of
	// its consumers. Each consumer accepts or rejects each claim.
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

// APIClaim requests access to objects of a kind that every space has.
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
	// Selector selects the claimed objects by label; all objects of the kind when absent.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Verbs are the requested verbs: get, list, watch, create, update, patch, delete,
	// deletecollection; or * for all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=get;list;watch;create;update;patch;delete;deletecollection;*
	Verbs []string `json:"verbs"`
	// ReferredBy lists fields of exported objects that name claimed objects in their own namespace.
	// In a slice, a claimed object that no exported object owns is in the slices of the objects
	// that refer to it by these fields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	ReferredBy []ClaimReference `json:"referredBy,omitempty"`
}

// ClaimReference is a field of an exported resource that contains the name of a claimed object.
type ClaimReference struct {
	ExportedResource `json:",inline"`
	// Path is the path of the field: names after dots, such as .spec.credentials.secretName.
	// +kubebuilder:validation:Pattern=`^(\.[A-Za-z_][A-Za-z0-9_-]*){1,8}$`
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
}

// APIExportStatus is the observed state of an export.
type APIExportStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the conditions of the export. Ready: all offered resources can be bound.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Bindings is the number of spaces that have bound the export.
	// +optional
	Bindings int32 `json:"bindings,omitempty"`
	// URL is the URL at which the hub serves the objects of all consumers.
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
