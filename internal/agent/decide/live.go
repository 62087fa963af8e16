package decide

import (
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Live is what a report says of the object at the target as it is there, whatever has
// become of what is desired.
type Live struct {
	Health wire.Health
	Detail string
	// Wanted and Status are reported if the policy asks for the status.
	Wanted *wire.Wanted
	Status []byte
}

// Why an object is not Healthy, where the rules have no part in that.
const (
	notLooked = "objects of this kind can't be observed at the location"
	notSeen   = "what was written last has not been seen at the location yet"
)

// LiveOf is what is known of the object at the target: seen says whether it is there, last
// how it was last seen; rec is its record, nil if what is there is not ours. ended is how it
// ran to its end, before the last report.
func LiveOf(r key.Resource, seen Observed, rec *store.Record, last *store.Live, ended string, before *wire.Report) Live {
	var l Live
	// Of an object that was made again nothing is known until it is seen; an older agent has
	// stored no UID.
	// Nor is anything of one that is gone or has made room for another, unless it ran to its end.
	gone := (seen.Presence == Absent || seen.Presence == Foreign) && ended == ""
	if rec != nil && last != nil && !gone && (last.UID == "" || last.UID == rec.UID) {
		l.Status, l.Wanted = last.Status, last.Wanted
	}
	switch {
	case seen.Presence != Present && ended != "": // it may be gone, and did what it was to do
		l.Health, l.Detail = healthOfEnd(ended, rec, last, before)
	case rec == nil:
	case seen.Presence == Blind: // it may have been deleted
		l.Health, l.Detail = wire.HealthUnknown, notLooked
	case seen.Presence != Present:
	case !health.Has(r):
		l.Health, l.Detail = health.Of(health.Object{Deleting: seen.Terminating})
	case last == nil || last.UID != rec.UID || last.Generation < rec.Generation:
		l.Health, l.Detail = wire.Progressing, notSeen
	default:
		l.Health, l.Detail = last.Health, last.Detail
	}
	return l
}

// healthOfEnd is the health of an object that ran to its end and is not there any more. The last report may be from
// before the end: a Job that its TTL removes at once is gone before its end is reported.
func healthOfEnd(ended string, rec *store.Record, last *store.Live, before *wire.Report) (health wire.Health, message string) {
	if before != nil {
		health, message = before.Health, before.HealthNote
	}
	if rec != nil && last != nil && last.UID == rec.UID && last.Health != "" {
		health, message = last.Health, last.Detail
	}
	switch {
	case succeeded(ended) && health != wire.Healthy:
		return wire.Healthy, ""
	case ended == "Failed" && health != wire.Degraded:
		return wire.Degraded, ""
	}
	return health, message
}
