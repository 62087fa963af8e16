package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIExportView slices what an APIExport of its space shows, by the value of a label or a
// field: the hub serves each slice by itself, and the rest. While there is one, the value
// of an object can be set once, and not changed until the object is deleted.
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

	// Spec says what is sliced, and how.
	Spec APIExportViewSpec `json:"spec"`
	// Status says where slices are served.
	// +optional
	Status APIExportViewStatus `json:"status,omitempty,omitzero"`
}

// APIExportViewSpec says what is sliced, and how.
type APIExportViewSpec struct {
	// Export is the name of an APIExport of the space.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a view is of one export: delete it, and create another"
	Export string `json:"export"`
	// Split is what the slices differ in.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="slices are by one key: delete the view, and create another"
	Split Split `json:"split"`
	// Values that have a slice; all others are in the rest. Absent: each value that an object
	// has gets one.
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
	// Label is the name of a label. Claimed objects are sliced by it, too; one that does not
	// have it follows the exported objects that own it or, if there are none, refer to it.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	Label string `json:"label,omitempty"`
	// Field is that of exported objects: names behind dots, such as .spec.class. It must be
	// a string, without a default, in every version that is served. Claimed objects follow the
	// exported ones that own them or, if there are none, refer to them.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^\.spec(\.[A-Za-z_][A-Za-z0-9_-]*){1,7}$`
	Field string `json:"field,omitempty"`
}

// APIExportViewStatus is what the hub says of a view.
type APIExportViewStatus struct {
	// Conditions: Ready says whether the slices are served.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Slices is how many values have one.
	// +optional
	Slices int32 `json:"slices,omitempty"`
	// Endpoints are the slices by their values, the first 1,024 of them. All are served.
	// +optional
	// +listType=map
	// +listMapKey=value
	Endpoints []SliceEndpoint `json:"endpoints,omitempty"`
	// Rest has what has no value, or none that has a slice.
	// +optional
	Rest *RestEndpoint `json:"rest,omitempty"`
}

// SliceEndpoint is a slice.
type SliceEndpoint struct {
	// Value is that of the objects in it.
	Value string `json:"value"`
	// URL is where it is served, across all spaces below spaces/* and for one below
	// spaces/NAME.
	URL string `json:"url"`
	// Objects is how many exported and claimed objects it has.
	Objects int64 `json:"objects"`
}

// RestEndpoint is the slice of what has no other.
type RestEndpoint struct {
	// URL is where it is served, as that of other slices.
	URL string `json:"url"`
	// Objects is how many exported and claimed objects it has.
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
