package wire

import "slices"

// A pair is a place in a log: the newest marker at or below a revision, and that
// revision. Each put says at which it was delivered, and what an agent applies says
// so at the target: an agent that has lost its store can then ask, object by object,
// whether the hub's log continues the one by which the object was written.

// MaxMarkers is how many markers one lineage request may name.
const MaxMarkers = 100

// LineageAsk is the body of a lineage request, about markers that an agent found at
// its target. The answer is a LineageAnswer. It changes nothing at the hub.
type LineageAsk struct {
	Markers []string `json:"markers"`
}

// LineageAnswer says which part of each log that was asked about is a part of the
// hub's. A marker that the hub does not know has none.
type LineageAnswer struct {
	// Marker and Revision are where the hub's log stands.
	Marker   string                 `json:"marker"`
	Revision int64                  `json:"revision"`
	Spans    map[string][]Revisions `json:"spans,omitempty"`
}

// Has says whether a revision of a marker is of the hub's log.
func (a LineageAnswer) Has(marker string, revision int64) bool {
	return Among(a.Spans[marker], revision)
}

// Among says whether a revision is among some.
func Among(all []Revisions, revision int64) bool {
	return slices.ContainsFunc(all, func(r Revisions) bool { return r.Has(revision) })
}

// Revisions are those from the first to the last, both included.
type Revisions struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Has says whether a revision is among them.
func (r Revisions) Has(revision int64) bool { return r.First <= revision && revision <= r.Last }
