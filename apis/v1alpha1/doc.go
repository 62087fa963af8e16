// Package v1alpha1 holds the kinds that users of Orrery write: descriptions of
// spaces, locations, placements and customizers. It is vocabulary only: no
// behaviour beyond deep copies lives here.
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
	// AcceptAnnotation on a Location is the marker of the log that its agent is to
	// accept as the continuation of the one it knows.
	AcceptAnnotation = "orrery.dev/accept"
	// ConfirmPruneAnnotation is the digest of removals that may go: on a Location
	// of any, on a Placement of those of its space's objects.
	ConfirmPruneAnnotation = "orrery.dev/confirm-prune"
	// PurgeAnnotation with value "true" on a Location has its agent remove
	// everything that it made there.
	PurgeAnnotation = "orrery.dev/purge"
	// SpaceAnnotation names the space of an object read through a wildcard path.
	SpaceAnnotation = "orrery.dev/space"
)
