package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Placement decides which objects of its space go to which locations.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pl,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Locations",type=integer,JSONPath=`.status.locations`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`,priority=1
// +kubebuilder:printcolumn:name="Stale",type=integer,JSONPath=`.status.stale`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what goes where.
	Spec PlacementSpec `json:"spec"`
	// Status adds up what came of it.
	// +optional
	Status PlacementStatus `json:"status,omitempty,omitzero"`
}

// PlacementSpec says what goes where.
type PlacementSpec struct {
	// Suspend freezes what this placement alone decides: locations keep what
	// they have of its objects, and get and change nothing. Objects that no
	// longer belong to it leave all the same.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Locations that get the objects: those that any entry selects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Locations []LocationSelector `json:"locations,omitempty"`
	// Downsync says which objects of the space go there: those that any entry matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Downsync []Downsync `json:"downsync,omitempty"`
}

// LocationSelector selects locations by label, by name, or by both.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.names)",message="give a selector, names, or both; an empty selector selects all locations"
type LocationSelector struct {
	// Selector selects by label; the empty selector selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Names selects by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=40
	Names []string `json:"names,omitempty"`
}

// ObjectTest matches objects: all fields that are given must match, and of a
// list one entry. A cluster-scoped object never matches a test that names
// namespaces.
type ObjectTest struct {
	// APIGroup of the object: "" is the core group, "*" any; any when absent.
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names, or "*".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Resources []string `json:"resources,omitempty"`
	// Namespaces are names of namespaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelectors match the labels of the object's namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// Names are names of objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Names []string `json:"names,omitempty"`
	// LabelSelectors match the labels of the object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	LabelSelectors []metav1.LabelSelector `json:"labelSelectors,omitempty"`
}

// Downsync matches objects and says how they are treated.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || has(self.resources) || has(self.namespaces) || has(self.namespaceSelectors) || has(self.names) || has(self.labelSelectors)",message="an object test needs at least one of apiGroup, resources, namespaces, namespaceSelectors, names, labelSelectors"
type Downsync struct {
	ObjectTest `json:",inline"`
	// ReturnStatus says whether the status at the location comes back to the
	// object in the space: None, or Singleton: while exactly one location has it.
	// +optional
	// +kubebuilder:default=None
	ReturnStatus ReturnStatus `json:"returnStatus,omitempty"`
}

// ReturnStatus is a policy for the status of placed objects.
//
// +kubebuilder:validation:Enum=None;Singleton
type ReturnStatus string

const (
	// ReturnStatusNone leaves the status at the location.
	ReturnStatusNone ReturnStatus = "None"
	// ReturnStatusSingleton copies the status of the one location there is.
	ReturnStatusSingleton ReturnStatus = "Singleton"
)

// PlacementStatus adds up what came of a placement.
type PlacementStatus struct {
	// ObservedGeneration is the generation that the rest is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has Accepted: the selectors could be read; Synced: every pair
	// is applied.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Locations that the placement selects.
	// +optional
	Locations int64 `json:"locations"`
	// Objects that the placement matches.
	// +optional
	Objects int64 `json:"objects"`
	Counts  `json:",inline"`
	// Errors shows up to ten pairs that failed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []PlacementError `json:"errors,omitempty"`
}

// PlacementError is one pair of object and location that failed.
type PlacementError struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object string `json:"object"`
	// Location is the location's name.
	Location string `json:"location"`
	// Reason is one word for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// PlacementList is a list of placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Placement `json:"items"`
}
