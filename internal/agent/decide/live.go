package decide

import (
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Live is what a report contains of the object at the target, independent of the progress of the desired object.
type Live struct {
	Health wire.Health
	Detail string
	// Diagnosis is why the object is not healthy, from the objects that it owns; empty if that is unknown.
	Diagnosis string
	// Wanted and Status are reported if the policy asks for the status.
	Wanted *wire.Wanted
	Status []byte
}

// Details of objects that are not Healthy for a reason outside the rules of kstatus.
const (
	notLooked = "objects of this kind can't be observed at the location"
	notSeen   = "the version that the agent applied last has not been observed at the location yet"
)

// LiveOf returns what the agent knows of the object at the target. seen is the current observation, and last the
// last observed content. rec is the record, nil if the object is not ours. ended is the state in which a Job or
// Pod ended, and before the last report.
func LiveOf(r key.Resource, seen Observed, rec *store.Record, last *store.Live, ended string, before *wire.Report) Live {
	var l Live
	// The agent has not observed an object that was created again, though last may have its predecessor; an
	// older agent has stored no UID. An object that is deleted or replaced has no status, unless it ran to its
	// end.
	gone := (seen.Existence == Absent || seen.Existence == Foreign) && ended == ""
	if rec != nil && last != nil && !gone && (last.UID == "" || last.UID == rec.UID) {
		l.Status, l.Wanted = last.Status, last.Wanted
	}
	switch {
	case seen.Existence != Present && ended != "": // it may be deleted after it ran to its end
		l.Health, l.Detail = healthOfEnd(ended, rec, last, before)
	case rec == nil:
	case seen.Existence == Blind: // it may have been deleted
		l.Health, l.Detail = wire.HealthUnknown, notLooked
	case seen.Existence != Present:
	case !health.HasStatus(r):
		l.Health, l.Detail = health.Assess(health.Object{Deleting: seen.Terminating})
	case last == nil || last.UID != rec.UID || last.Generation < rec.Generation:
		l.Health, l.Detail = wire.Progressing, notSeen
	default:
		l.Health, l.Detail = last.Health, last.Detail
		if last.Diagnosis != nil {
			l.Health, l.Diagnosis = diagnosed(last), last.Diagnosis.Text
		}
	}
	return l
}

// diagnosed returns the health of an object with a diagnosis. It is never Healthy, as an agent of an earlier version
// stored it of a Job whose Pods cannot run.
func diagnosed(last *store.Live) wire.Health {
	if last.Diagnosis.Final {
		return wire.Degraded
	}
	if last.Health == wire.Healthy {
		return wire.Progressing
	}
	return last.Health
}

// healthOfEnd returns the health of an object that ran to its end and is deleted. The last report may be older
// than the end: a Job whose TTL is zero is deleted before its end is reported.
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
