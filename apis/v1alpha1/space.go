package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Space is a Kubernetes-compatible API that stores descriptions of workloads
// and runs nothing. Spaces are created in the space root.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.metadata.name.contains('--')",message="the name of a space is a DNS label of at most 40 characters without \"--\""
type Space struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the space.
	// +optional
	Spec SpaceSpec `json:"spec,omitempty,omitzero"`
	// Status is what the hub says of it.
	// +optional
	Status SpaceStatus `json:"status,omitempty,omitzero"`
}

// SpaceSpec is the desired state of a space.
type SpaceSpec struct {
	// Limits bound what the space may hold. Writes beyond them are refused as
	// Forbidden; what the space already holds stays.
	// +optional
	Limits SpaceLimits `json:"limits,omitempty,omitzero"`
}

// SpaceLimits bound what a space may hold. A limit that is not set does not apply,
// but for bytes and policyTests, which have defaults.
type SpaceLimits struct {
	// Objects is how many objects of all kinds the space may hold.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Objects *int64 `json:"objects,omitempty"`
	// Bytes is how large all objects may be together, as they are stored. When absent, they may
	// have a quarter of the log's quota together. Then objects can be created while the whole log holds less than
	// half of its quota, and made larger while it holds less than five eighths.
	// +optional
	Bytes *resource.Quantity `json:"bytes,omitempty"`
	// ObjectBytes is how large one object may be, as it is stored. No object is
	// larger than 1472Ki.
	// +optional
	ObjectBytes *resource.Quantity `json:"objectBytes,omitempty"`
	// CRDs is how many CustomResourceDefinitions the space may hold.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CRDs *int64 `json:"crds,omitempty"`
	// Policies is how many Placements and Customizers the space may hold. Each takes time at
	// each change of an object and of a location, and memory for each location.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Policies *int64 `json:"policies,omitempty"`
	// PolicyTests is how many tests all Placements and Customizers of the space may have: one for each
	// entry of downsync and match, and one for each requirement of their label selectors. 8,192 when
	// absent. Each may be evaluated for each object of the space that a change concerns.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PolicyTests *int64 `json:"policyTests,omitempty"`
	// Summaries is how many Summaries the space may hold. Each takes time at each change of an
	// object and of a report.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Summaries *int64 `json:"summaries,omitempty"`
}

// SpaceStatus is what the hub says of a space.
type SpaceStatus struct {
	// URL is where the space's API is served.
	// +optional
	URL string `json:"url,omitempty"`
	// Objects is how many objects the space holds at the time of the read.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Bytes is how large they are together, as they are stored.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
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
