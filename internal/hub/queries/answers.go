package queries

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// SpaceStatus is the response to GET /ask/v1/spaces/NAME/status: the status of the objects of a
// space at locations. With limit=N it has about N objects and the start of the next page
// (continue=TOKEN). Of later pages, only the objects are used.
type SpaceStatus struct {
	Space      key.Space        `json:"space"`
	Placements []PlacementTotal `json:"placements"`
	// OmittedPlacements counts the Placements of the space that are not summarized, since that would take too long.
	OmittedPlacements int `json:"omittedPlacements,omitempty"`
	// Waiting are the removals that wait for a confirmation, by Placement.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// LeftCounts count objects of the space at locations that they are not assigned to.
	v1alpha1.LeftCounts
	// Continue is the token of the next page; empty on the last page.
	Continue string         `json:"continue,omitempty"`
	Objects  []ObjectStatus `json:"objects"`
}

// PlacementTotal summarizes one Placement.
type PlacementTotal struct {
	// Name is the name of the Placement in the space.
	Name      key.PlacementRef `json:"name"`
	Suspended bool             `json:"suspended,omitempty"`
	// Problems are the reasons why parts of its spec are invalid.
	Problems []string `json:"problems,omitempty"`
	// Unknown are locations in its spec that do not exist.
	Unknown []string `json:"unknown,omitempty"`
	// PartOf lists the Helm releases that match only partly.
	PartOf []string `json:"partOf,omitempty"`
	// StatusLeftOut describes requested statuses that are not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
	// Spaces is the number of spaces that a Placement of root with spec.spaces selects. In the
	// status of one of these spaces, the counts include only that space.
	Spaces    int64 `json:"spaces,omitempty"`
	Locations int64 `json:"locations"`
	Objects   int64 `json:"objects"`
	v1alpha1.Counts
	Errors []v1alpha1.PlacementError `json:"errors,omitempty"`
}

// ObjectStatus is an object with the locations where it exists or is assigned to.
type ObjectStatus struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object     string        `json:"object"`
	Generation int64         `json:"generation,omitempty"`
	Places     []PlaceStatus `json:"places"`
}

// PlaceStatus is one object at one location.
type PlaceStatus struct {
	Location key.Location `json:"location"`
	// State is the state of package objectstate.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
	// Health is the health of the object at the location: Healthy, Progressing, Degraded or
	// Unknown; empty if it is not known. HealthNote explains why it is not Healthy.
	Health     wire.Health `json:"health,omitempty"`
	HealthNote string      `json:"healthNote,omitempty"`
	// Stale reports whether the state may be old, see objectstate.IsStale.
	Stale bool `json:"stale,omitempty"`
	// Unassigned reports that the object is not assigned to the location: the location removes it,
	// or reports why it stays.
	Unassigned bool `json:"unassigned,omitempty"`
	// Cause is the reason why it is not assigned, one of the Cause constants.
	Cause string `json:"cause,omitempty"`
	// LetGoBy is the Placement that had assigned the object, the first of several. It is empty if
	// it is unknown, or the reader may not list Placements.
	LetGoBy key.PlacementRef `json:"letGoBy,omitempty"`
	// StatusLeftOut is the reason why the requested status there is not returned.
	StatusLeftOut string `json:"statusLeftOut,omitempty"`
}

// Reasons why an object is not assigned to a location that has it, or may have it.
const (
	// CauseDeleted: the object was deleted.
	CauseDeleted = "Deleted"
	// CauseUnassigned: the object exists, and no policy assigns it to the location now.
	CauseUnassigned = "Unassigned"
)

// Why is the response to GET /ask/v1/spaces/NAME/why?object=PATH&location=L: why an object is or is
// not assigned to a location, and its state there.
type Why struct {
	Decision placement.Explanation `json:"decision"`
	// NotFound is the error if the object or the location does not exist, with a similar name if there
	// is one. The decision may still explain an object that others refer to.
	NotFound string `json:"notFound,omitempty"`
	// Rules are the effects of each rule of a Customizer on the object for the location, in order,
	// up to a rule that fails.
	Rules []rules.Effect `json:"rules,omitempty"`
	// Place is the object at the location; nil if it is neither assigned nor reported.
	Place *PlaceStatus `json:"place,omitempty"`
	// Waiting are the pending removals of the space, if the removal of the object is among them.
	Waiting []prune.Waiting `json:"waiting,omitempty"`
	// Digest is the digest of the desired object, and Applied that of the last applied one.
	Digest  string `json:"digest,omitempty"`
	Applied string `json:"applied,omitempty"`
}
