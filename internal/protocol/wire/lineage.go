package wire

import "slices"

// A marker and a revision are a place in a log: the newest hub marker at or below the
// revision, and the revision. Each put says at which place it was delivered, and the
// agent notes that on the object at the target: an agent that has lost its store can
// then ask, object by object, whether the hub's log continues the one that the object
// came from.

// MaxMarkers is how many markers one lineage request may name.
const MaxMarkers = 100

// LineageAsk is the body of a lineage request, about markers that an agent found at
// its target. The answer is a LineageAnswer. It changes nothing at the hub.
type LineageAsk struct {
	Markers []string `json:"markers"`
}

// LineageAnswer says which revisions under each marker that was asked about are of the
// hub's log: none if the hub does not know the marker.
type LineageAnswer struct {
	// Marker and Revision are where the hub's log stands.
	Marker   string                 `json:"marker"`
	Revision int64                  `json:"revision"`
	Spans    map[string][]Revisions `json:"spans,omitempty"`
}

// Has says whether a revision under a marker is of the hub's log.
func (a LineageAnswer) Has(marker string, revision int64) bool {
	return Among(a.Spans[marker], revision)
}

// Among says whether a revision is in one of the ranges.
func Among(all []Revisions, revision int64) bool {
	return slices.ContainsFunc(all, func(r Revisions) bool { return r.Has(revision) })
}

// Revisions is a range of revisions, First and Last included.
type Revisions struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Has says whether a revision is in the range.
func (r Revisions) Has(revision int64) bool { return r.First <= revision && revision <= r.Last }
