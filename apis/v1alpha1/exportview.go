package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIExportView divides the objects of an APIExport of its space by the value of a label or field.
// The hub serves each slice, and the rest, at its own URL. While a view exists, the value can be
// set once on an object, and not be changed until the object is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Export",type=string,JSONPath=`.spec.export`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Slices",type=integer,JSONPath=`.status.slices`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIExportView struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines which export is divided, and by which key.
	Spec APIExportViewSpec `json:"spec"`
	// Status reports the URLs of the slices.
	// +optional
	Status APIExportViewStatus `json:"status,omitempty,omitzero"`
}

// APIExportViewSpec defines which export is divided, and by which key.
type APIExportViewSpec struct {
	// Export is the name of an APIExport of the space.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a view is of one export: delete it, and create another"
	Export string `json:"export"`
	// Split is the key whose value decides the slice of an object.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="slices are by one key: delete the view, and create another"
	Split Split `json:"split"`
	// Values are the values that have a slice; all other objects are in the rest. When absent, each
	// value that occurs has a slice.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	Values []string `json:"values,omitempty"`
}

// Split is a label or a field.
//
// +kubebuilder:validation:XValidation:rule="has(self.label) != has(self.field)",message="give a label or a field"
type Split struct {
	// Label is the key of a label. It divides claimed objects, too. A claimed object without the
	// label is in the slices of the exported objects that own it or, if there are none, refer to
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	Label string `json:"label,omitempty"`
	// Field is the path of a field of exported objects: names after dots, such as .spec.class. In
	// each served version it must be a string without a default. A claimed object is in the slices
	// of the exported objects that own it or, if there are none, refer to it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^\.spec(\.[A-Za-z_][A-Za-z0-9_-]*){1,7}$`
	Field string `json:"field,omitempty"`
}

// APIExportViewStatus is the observed state of a view.
type APIExportViewStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the conditions of the view. Ready: the hub serves the slices.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Slices is the number of values that have a slice.
	// +optional
	Slices int32 `json:"slices,omitempty"`
	// Endpoints are the slices by value, at most the first 1,024. The hub serves all of them.
	// +optional
	// +listType=map
	// +listMapKey=value
	Endpoints []SliceEndpoint `json:"endpoints,omitempty"`
	// Rest is the slice of objects without a value, or whose value has no slice.
	// +optional
	Rest *RestEndpoint `json:"rest,omitempty"`
}

// SliceEndpoint is a slice.
type SliceEndpoint struct {
	// Value is the value of the objects in the slice.
	Value string `json:"value"`
	// URL is the URL of the slice. Below it, spaces/* has the objects of all spaces and spaces/NAME
	// those of one.
	URL string `json:"url"`
	// Objects is the number of exported and claimed objects in the slice.
	Objects int64 `json:"objects"`
}

// RestEndpoint is the slice of all objects that are in no other slice.
type RestEndpoint struct {
	// URL is the URL of the slice, with the same paths as other slices.
	URL string `json:"url"`
	// Objects is the number of exported and claimed objects in the slice.
	Objects int64 `json:"objects"`
}

// APIExportViewList is a list of APIExportViews.
//
// +kubebuilder:object:root=true
type APIExportViewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the views.
	Items []APIExportView `json:"items"`
}
