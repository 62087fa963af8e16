package wire

import "slices"

// A marker and a revision are a log position: a revision, and the newest hub marker at or below it.
// Each put has the position at which it was delivered, and the agent records that on the object in
// the cluster. An agent that has lost its store can then check, object by object, whether the hub's
// log continues the log that the object came from.

// MaxMarkers is the maximum number of markers in one request.
const MaxMarkers = 100

// LogIdentityRequest is the request body about markers that an agent found in its cluster. The response is
// a LogIdentityResponse. The request changes nothing at the hub.
type LogIdentityRequest struct {
	Markers []string `json:"markers"`
}

// LogIdentityResponse lists, for each requested marker, the revisions that are in the hub's log; none if
// the hub does not know the marker.
type LogIdentityResponse struct {
	// Marker and Revision are the present position of the hub's log.
	Marker   string                 `json:"marker"`
	Revision int64                  `json:"revision"`
	Spans    map[string][]Revisions `json:"spans,omitempty"`
}

// Contains reports whether a revision with a marker is in the hub's log.
func (a LogIdentityResponse) Contains(marker string, revision int64) bool {
	return InRanges(a.Spans[marker], revision)
}

// InRanges reports whether a revision is in one of the ranges.
func InRanges(all []Revisions, revision int64) bool {
	return slices.ContainsFunc(all, func(r Revisions) bool { return r.Contains(revision) })
}

// Revisions is a range of revisions, including First and Last.
type Revisions struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Contains reports whether a revision is in the range.
func (r Revisions) Contains(revision int64) bool { return r.First <= revision && revision <= r.Last }
