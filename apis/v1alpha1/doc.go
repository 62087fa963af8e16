// Package v1alpha1 holds the kinds that users of Orrery write: descriptions of
// spaces, locations and placements. It is vocabulary only: no behaviour beyond
// deep copies lives here.
//
// +kubebuilder:object:generate=true
// +groupName=orrery.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

const (
	// Group is the API group of Orrery's kinds.
	Group = "orrery.dev"
	// Version is their version.
	Version = "v1alpha1"
)

// GroupVersion is orrery.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

const (
	// AssignedLocationsAnnotation on any object assigns it directly: a JSON list of location names.
	AssignedLocationsAnnotation = "orrery.dev/assigned-locations"
	// ReturnStatusAnnotation is the return-status policy of a direct assignment.
	ReturnStatusAnnotation = "orrery.dev/return-status"
	// ForLabel with value ForBelow marks an Orrery object that a lower hub is to act on.
	ForLabel = "orrery.dev/for"
	// ForBelow is the value of ForLabel.
	ForBelow = "below"
	// SpaceAnnotation names the space of an object read through a wildcard path.
	SpaceAnnotation = "orrery.dev/space"
)
