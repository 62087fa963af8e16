package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Space is a Kubernetes-compatible API that stores descriptions of workloads and runs nothing.
// Spaces are created in the space root.
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
	// Status is the observed state of the space.
	// +optional
	Status SpaceStatus `json:"status,omitempty,omitzero"`
}

// SpaceSpec is the desired state of a space.
type SpaceSpec struct {
	// Limits limit what the space may hold. The hub rejects writes beyond them as Forbidden;
	// existing objects stay.
	// +optional
	Limits SpaceLimits `json:"limits,omitempty,omitzero"`
}

// SpaceLimits limit what a space may hold. Except for bytes and policyTests, there is no limit if
// the field is absent.
type SpaceLimits struct {
	// Objects is the maximum number of objects of all kinds in the space.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Objects *int64 `json:"objects,omitempty"`
	// Bytes is the maximum total size of all objects as stored. When absent, it is a quarter of the
	// log's quota. Objects can then be created while those of all spaces take less than half of the
	// quota, and made larger while they take less than five eighths. A space with less than a 64th
	// of the quota can create objects up to five eighths, too. Objects and reports together must
	// take less than five eighths, and 21 of 32 parts for objects of small spaces and growth.
	// +optional
	Bytes *resource.Quantity `json:"bytes,omitempty"`
	// ObjectBytes is the maximum size of one object as stored. No object can be larger than 1472Ki.
	// +optional
	ObjectBytes *resource.Quantity `json:"objectBytes,omitempty"`
	// CRDs is the maximum number of CustomResourceDefinitions in the space.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CRDs *int64 `json:"crds,omitempty"`
	// Policies is the maximum number of Placements, Customizers and KindRules in the space. The hub
	// evaluates each of them at each change of an object or location, and each needs memory for each
	// location.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Policies *int64 `json:"policies,omitempty"`
	// PolicyTests is the maximum number of tests of all Placements, Customizers and KindRules in the
	// space; 8,192 when absent. Each entry of downsync, match and kinds is one test, and so is each
	// requirement of their label selectors. A change of an object may evaluate all of them.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PolicyTests *int64 `json:"policyTests,omitempty"`
	// Summaries is the maximum number of Summaries in the space. The hub evaluates each of them at
	// each change of an object or report.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Summaries *int64 `json:"summaries,omitempty"`
}

// SpaceStatus is the observed state of a space.
type SpaceStatus struct {
	// URL is the URL of the space's API.
	// +optional
	URL string `json:"url,omitempty"`
	// Objects is the number of objects in the space, computed at each read.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Bytes is the total size of these objects as stored.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are the conditions of the space. Ready: the hub serves the space.
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
