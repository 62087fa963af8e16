package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Space is a Kubernetes-compatible API that stores descriptions of workloads
// and runs nothing. Spaces are created in the space root.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.metadata.name.contains('--')",message="the name of a space is a DNS label of at most 40 characters without \"--\""
type Space struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the space is to be.
	// +optional
	Spec SpaceSpec `json:"spec,omitempty,omitzero"`
	// Status is what the hub says of it.
	// +optional
	Status SpaceStatus `json:"status,omitempty,omitzero"`
}

// SpaceSpec is empty for a space that this hub keeps.
type SpaceSpec struct{}

// SpaceStatus is what the hub says of a space.
type SpaceStatus struct {
	// URL is where the space's API is served.
	// +optional
	URL string `json:"url,omitempty"`
	// Conditions has Ready: the space is served.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SpaceList is a list of spaces.
//
// +kubebuilder:object:root=true
type SpaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Space `json:"items"`
}
