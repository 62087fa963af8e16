package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Customizer changes objects of its space for the locations that get them. It assigns no objects to
// locations; Placements do.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cz,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Customizer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines the changes, and the objects and locations that they apply to.
	Spec CustomizerSpec `json:"spec"`
	// Status reports whether the rules are valid, and where they fail.
	// +optional
	Status CustomizerStatus `json:"status,omitempty,omitzero"`
}

// CustomizerSpec defines changes, and the objects and locations that they apply to.
type CustomizerSpec struct {
	// Match selects the objects of the space that the rules apply to: those that match any entry.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Match []ObjectTest `json:"match"`
	// Locations selects the locations that the rules apply to, by any entry; all locations when
	// absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Locations []LocationSelector `json:"locations,omitempty"`
	// Priority orders Customizers. Lower priorities apply first; Customizers of equal priority
	// apply in the order of their names.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// Data are ConfigMaps of the space that expressions can use, each under a name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Data []CustomizerData `json:"data,omitempty"`
	// Rules are the changes. The rules of all Customizers that match an object apply in order, each
	// to the result of the previous one.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Rules []Rule `json:"rules"`
}

// CustomizerData makes a ConfigMap available to expressions.
type CustomizerData struct {
	// Name is the name of the variable in expressions: data.NAME is a map with the strings in the
	// data of the ConfigMap, by key.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9_]*$`
	Name string `json:"name"`
	// ConfigMap is a ConfigMap in the Customizer's space. The user that writes the Customizer needs
	// the right to get it. While it does not exist, rules that use it fail.
	ConfigMap ConfigMapReference `json:"configMap"`
}

// ConfigMapReference names a ConfigMap in the same space.
type ConfigMapReference struct {
	// Namespace is the namespace of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is the name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Rule changes values of an object. It has exactly one of value, expression, remove and release.
//
// +kubebuilder:validation:XValidation:rule="[has(self.expression), has(self.remove), has(self.release)].filter(x, x).size() <= 1",message="a rule is exactly one of value, expression, remove: true, release: true"
// +kubebuilder:validation:XValidation:rule="(!has(self.remove) || self.remove) && (!has(self.release) || self.release)",message="remove and release are true where they are given"
type Rule struct {
	// Path selects the values: a JSONPath (RFC 9535), for example $.spec.replicas or
	// $.spec.template.spec.containers[*].resources. It starts with the name of a field and
	// continues with names, indexes, [*] and filters for one string, such as [?@.name=="app"]. In
	// metadata it can select only single labels and annotations. For value and expression, missing
	// fields are added, and [+] at the end appends to a list unless the list has an equal element.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
	// Value replaces the selected values: any JSON except null.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
	// Expression computes the replacement, in CEL with the Kubernetes libraries. Variables: self,
	// the value at the path (for [+], the list); object, with the previous rules applied; location,
	// with name, labels and properties; space, with name and labels; data, the strings of
	// ConfigMaps (see spec.data). parseJSON(text) parses JSON. If the expression uses self, the
	// value must exist (see onMissing). If it fails, the location keeps its present object, which
	// is Held with reason RuleFailed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
	// Remove removes the selected values.
	// +optional
	Remove bool `json:"remove,omitempty"`
	// Release leaves the values to other writers at the location. They are set when the object is
	// created there. Afterwards they are neither changed nor repaired, even if they change in the
	// space. Some values can't have an owner of their own, such as an element of an atomic list. If
	// a path selects such a value, the object is not changed, and reported as Failed with reason
	// CannotRelease.
	// +optional
	Release bool `json:"release,omitempty"`
	// OnMissing is the policy for a path that selects nothing, where no field can be added. Ignore,
	// also when absent, changes nothing; with Fail, the rule fails.
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
	// OnMissingFail makes the rule fail.
	OnMissingFail OnMissing = "Fail"
)

// CustomizerStatus reports whether the rules are valid, and where they fail.
type CustomizerStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted and Ready. Accepted: all tests, selectors, paths and expressions are
	// valid. Invalid tests, selectors and releases have no effect. Other invalid rules fail for each
	// object that they apply to. Ready: Accepted is True, and no rule fails for any object.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Errors are up to 10 objects and locations for which a rule failed. These locations keep their
	// present object.
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
	// Reason is a machine-readable word.
	Reason string `json:"reason"`
	// Message is a text for users.
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
