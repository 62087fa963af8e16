package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Customizer says what is different about objects of its space at the locations
// that get them. It assigns nothing to locations: Placements do.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cz,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Customizer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is different about which objects, and where.
	Spec CustomizerSpec `json:"spec"`
	// Status says whether the rules are in force.
	// +optional
	Status CustomizerStatus `json:"status,omitempty,omitzero"`
}

// CustomizerSpec says what is different about which objects, and where.
type CustomizerSpec struct {
	// Match says which objects of the space the rules are for: those that any
	// entry matches.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Match []ObjectTest `json:"match"`
	// Locations where the rules are in force: those that any entry selects; all
	// when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Locations []LocationSelector `json:"locations,omitempty"`
	// Rules say what is different. Those of all Customizers that match an object
	// are in force together.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Rules []Rule `json:"rules"`
}

// Rule says what is different about some values of an object.
//
// +kubebuilder:validation:XValidation:rule="has(self.release) && self.release",message="a rule needs release: true"
type Rule struct {
	// Path selects the values: a JSONPath (RFC 9535), for example
	// $.spec.replicas or $.spec.template.spec.containers[*].resources. It begins
	// with the name of a field and goes on by names, indexes, [*] and filters for
	// one string, such as [?@.name=="app"]. Of metadata it can select single labels
	// and annotations only.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
	// Release leaves the values to others at the location: they are set when the
	// object is created there, and neither changed nor repaired afterwards, not even
	// when they change in the space. If a path selects something that can't be owned
	// on its own, such as an element of an atomic list, the object is not changed and
	// is reported as Failed with reason CannotRelease.
	// +optional
	Release bool `json:"release,omitempty"`
}

// CustomizerStatus says whether the rules are in force.
type CustomizerStatus struct {
	// Conditions has Accepted: all tests, selectors and paths are valid. Those that
	// are not have no effect; the others do.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CustomizerList is a list of customizers.
//
// +kubebuilder:object:root=true
type CustomizerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Customizer `json:"items"`
}
