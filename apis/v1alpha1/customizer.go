package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	// Priority orders Customizers: the rules of one with a lower priority come first, of
	// equal ones by name.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// Data are ConfigMaps of the space that expressions can use, each by a name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Data []CustomizerData `json:"data,omitempty"`
	// Rules say what is different. Those of all Customizers that match an object
	// are in force together, each upon what those before have made.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Rules []Rule `json:"rules"`
}

// CustomizerData has expressions use a ConfigMap.
type CustomizerData struct {
	// Name is that under which expressions have it: data.NAME is a map of the texts in the
	// ConfigMap's data, by key.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9_]*$`
	Name string `json:"name"`
	// ConfigMap is the ConfigMap, in the Customizer's space. Who writes the Customizer needs
	// the right to get it. If it is not there, rules that use it fail until it is.
	ConfigMap ConfigMapReference `json:"configMap"`
}

// ConfigMapReference names a ConfigMap of the same space.
type ConfigMapReference struct {
	// Namespace is the ConfigMap's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is the ConfigMap's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Rule says what is different about some values of an object: exactly one of value,
// expression, remove and release does.
//
// +kubebuilder:validation:XValidation:rule="[has(self.expression), has(self.remove), has(self.release)].filter(x, x).size() <= 1",message="a rule is exactly one of value, expression, remove: true, release: true"
// +kubebuilder:validation:XValidation:rule="(!has(self.remove) || self.remove) && (!has(self.release) || self.release)",message="remove and release are true where they are given"
type Rule struct {
	// Path selects the values: a JSONPath (RFC 9535), for example
	// $.spec.replicas or $.spec.template.spec.containers[*].resources. It begins
	// with the name of a field and goes on by names, indexes, [*] and filters for
	// one string, such as [?@.name=="app"]. Of metadata it can select single labels
	// and annotations only. For value and expression, fields that are not there are
	// added, and [+] at the end appends to a list, unless that has an equal element.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
	// Value is what the location gets in its place: any JSON but null.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
	// Expression gives what the location gets in its place, in CEL with the libraries of
	// Kubernetes: self is the value at the path (of [+], the list), object the object as
	// the rules before have made it, location has the location's name, labels and
	// properties, space the space's name and labels, data the texts of ConfigMaps, see
	// spec.data; parseJSON(text) reads JSON. If it uses self, the value must be
	// there, see onMissing. If it fails, the location keeps what it has of the object,
	// which is Held there with reason RuleFailed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
	// Remove removes the values.
	// +optional
	Remove bool `json:"remove,omitempty"`
	// Release leaves the values to others at the location: they are set when the
	// object is created there, and neither changed nor repaired afterwards, not even
	// when they change in the space. If a path selects something that can't be owned
	// on its own, such as an element of an atomic list, the object is not changed and
	// is reported as Failed with reason CannotRelease.
	// +optional
	Release bool `json:"release,omitempty"`
	// OnMissing says what a rule does where its path selects nothing and nothing can be
	// added: Ignore, also when absent, changes nothing; Fail fails.
	// +optional
	OnMissing OnMissing `json:"onMissing,omitempty"`
}

// OnMissing is a policy for paths that select nothing.
//
// +kubebuilder:validation:Enum=Ignore;Fail
type OnMissing string

const (
	// OnMissingIgnore changes nothing; the default.
	OnMissingIgnore OnMissing = "Ignore"
	// OnMissingFail fails.
	OnMissingFail OnMissing = "Fail"
)

// CustomizerStatus says whether the rules are in force.
type CustomizerStatus struct {
	// Conditions has Accepted: all tests, selectors, paths and expressions are valid.
	// Tests, selectors and releases that are not have no effect; another rule that is not
	// fails wherever it is in force.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Errors are up to 10 objects and locations where a rule failed; the location keeps
	// what it has of the object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []CustomizerError `json:"errors,omitempty"`
}

// CustomizerError is a rule that failed for one object at one location.
type CustomizerError struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object string `json:"object"`
	// Location is the name of the location.
	Location string `json:"location"`
	// Rule is the index of the rule.
	Rule int32 `json:"rule"`
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// CustomizerList is a list of customizers.
//
// +kubebuilder:object:root=true
type CustomizerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Customizer `json:"items"`
}
