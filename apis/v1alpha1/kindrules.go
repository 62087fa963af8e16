package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindRules defines the meaning of the status of some kinds, for objects that Placements assign to
// locations. The rules of a KindRules can only make the health of an object worse than the built-in
// judgement does. Several KindRules for a kind all apply, and the worst health counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=kindrules,shortName=kr,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KindRules struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines the kinds and their rules.
	Spec KindRulesSpec `json:"spec"`
	// Status reports whether the rules are valid, and where they fail.
	// +optional
	Status KindRulesStatus `json:"status,omitempty,omitzero"`
}

// KindRulesSpec defines kinds and their rules.
type KindRulesSpec struct {
	// Kinds are the kinds of objects that the rules apply to. The user that writes the KindRules
	// needs the right to list their objects, since others read the messages.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Kinds []RuleKinds `json:"kinds"`
	// Health computes the health of an object at a location. The locations report the status of the
	// objects for it, also if no Placement returns the status.
	Health HealthRule `json:"health"`
}

// RuleKinds selects kinds of one API group.
type RuleKinds struct {
	// APIGroup is the API group of the kinds: "" or absent is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resources []string `json:"resources"`
}

// HealthRule computes the health of an object at a location. Its expressions are CEL with the
// Kubernetes libraries. Their variable object is the object as it is in the space, with the status
// that the location reports, or {} if it reports none. The metadata are name, namespace, labels and
// annotations: the generation differs between the space and the location, and the built-in judgement
// compares it with status.observedGeneration. If an expression fails, the object is Unknown, unless
// the other results are worse.
type HealthRule struct {
	// State is an expression for the health: Healthy, Progressing, Degraded or Unknown. The health
	// of the object is the worse one of this and the built-in judgement, in the order Healthy,
	// Unknown, Progressing, Degraded.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	State string `json:"state"`
	// Message is an expression for the reason why the object is not Healthy. It is evaluated if
	// state gives another health than Healthy.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// KindRulesStatus reports whether the rules are valid, and where they fail.
type KindRulesStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted and Ready. Accepted: all expressions are valid. Ready: Accepted is
	// True, and no expression fails for any object.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Errors are up to 10 objects and locations for which an expression failed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []KindRulesError `json:"errors,omitempty"`
}

// KindRulesError is an expression that failed for one object at one location.
type KindRulesError struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object string `json:"object"`
	// Location is the name of the location.
	Location string `json:"location"`
	// Message is a text for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// KindRulesList is a list of KindRules.
//
// +kubebuilder:object:root=true
type KindRulesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KindRules `json:"items"`
}
