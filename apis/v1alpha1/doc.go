// Package v1alpha1 defines the API kinds of Orrery, condition types and reasons: spaces, locations,
// placements, customizers, kind rules, grants, exports, summaries and tokens. It has no behaviour beyond deep
// copies.
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
	// AssignedLocationsAnnotation assigns an object to locations without a Placement. Its value is
	// a JSON list of location names.
	AssignedLocationsAnnotation = "orrery.dev/assigned-locations"
	// ReturnStatusAnnotation sets the return-status policy of a direct assignment. Its values are
	// those of returnStatus in a Placement.
	ReturnStatusAnnotation = "orrery.dev/return-status"
	// ForLabel with the value ForBelow marks an Orrery object as meant for a lower hub.
	ForLabel = "orrery.dev/for"
	// ForBelow is the value of ForLabel.
	ForBelow = "below"
	// AcceptAnnotation on a Location is a log epoch. Its agent accepts the log with this epoch as
	// the continuation of the log that it last followed.
	AcceptAnnotation = "orrery.dev/accept"
	// ConfirmPruneAnnotation is the digest of pending removals that may proceed. On a Location it
	// confirms any removals there; on a Placement it confirms removals of objects of its space.
	ConfirmPruneAnnotation = "orrery.dev/confirm-prune"
	// PurgeAnnotation with the value "true" on a Location makes its agent remove all objects that
	// it created there.
	PurgeAnnotation = "orrery.dev/purge"
	// EndpointAnnotation on a Location is the name or URL of the hub endpoint that its agent
	// prefers, as given to "orrery hub --advertise".
	EndpointAnnotation = "orrery.dev/endpoint"
	// UnboundAnnotation names the APIBinding whose deletion makes the hub delete the object. At the
	// locations of the object this counts as a removal by policy, and not as a deletion by a user.
	UnboundAnnotation = "orrery.dev/unbound"
	// SpaceAnnotation names the space of an object that was read through a wildcard path.
	SpaceAnnotation = "orrery.dev/space"
)

// IsForBelow reports whether an Orrery object with these labels is meant for a lower hub. This hub
// does not act on such an object.
func IsForBelow(labels interface{ Get(name string) string }) bool {
	return labels.Get(ForLabel) == ForBelow
}
