// Package v1alpha1 holds the kinds that users of Orrery write: descriptions of
// spaces, locations, placements, customizers and grants, and requests for tokens.
// It is vocabulary only: no behaviour beyond deep copies lives here.
//
// +kubebuilder:object:generate=true
// +groupName=orrery.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

const (
	// Group is the API group of Orrery's kinds.
	Group = "orrery.dev"
	// Version is the version of Orrery's kinds.
	Version = "v1alpha1"
)

// GroupVersion is orrery.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

const (
	// AssignedLocationsAnnotation on any object assigns it to locations without a
	// Placement: a JSON list of their names.
	AssignedLocationsAnnotation = "orrery.dev/assigned-locations"
	// ReturnStatusAnnotation is the return-status policy of a direct assignment, as a
	// Placement's returnStatus.
	ReturnStatusAnnotation = "orrery.dev/return-status"
	// ForLabel with value ForBelow says that an Orrery object is for a lower hub.
	ForLabel = "orrery.dev/for"
	// ForBelow is the value of ForLabel.
	ForBelow = "below"
	// AcceptAnnotation on a Location is a hub marker: its agent accepts the log that
	// has this marker as the continuation of the one it knows.
	AcceptAnnotation = "orrery.dev/accept"
	// ConfirmPruneAnnotation is the digest of pending removals that may proceed: on a
	// Location any that wait there, on a Placement those of objects of its space.
	ConfirmPruneAnnotation = "orrery.dev/confirm-prune"
	// PurgeAnnotation with value "true" on a Location makes its agent remove
	// everything that it created there.
	PurgeAnnotation = "orrery.dev/purge"
	// EndpointAnnotation on a Location is the name or URL of the hub's endpoint that its
	// agent prefers, as "orrery hub --advertise" names them.
	EndpointAnnotation = "orrery.dev/endpoint"
	// UnboundAnnotation names the APIBinding with which the hub deletes an object that is
	// assigned to locations: at these that is a removal by policy, not a user's word.
	UnboundAnnotation = "orrery.dev/unbound"
	// SpaceAnnotation names the space of an object read through a wildcard path.
	SpaceAnnotation = "orrery.dev/space"
)

// IsForBelow says that an object of Orrery with labels is for a lower hub: this one does
// not act on it.
func IsForBelow(labels interface{ Get(name string) string }) bool {
	return labels.Get(ForLabel) == ForBelow
}
