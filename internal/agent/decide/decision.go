package decide

import (
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Action is what the agent does at the target.
type Action uint8

const (
	// DoNothing: there is nothing to do, or nothing can be done now.
	DoNothing Action = iota
	// DoApply: apply the object, provided that the one at the target has Decision.UID,
	// or that there is none if that is empty.
	DoApply
	// DoLook: read the object from the target, to find out its owner.
	DoLook
	// DoNote: record the object that has Decision.UID as it is.
	DoNote
	// DoMark: give the object that has Decision.UID our ownership metadata, change nothing else of it, and
	// record it.
	DoMark
	// DoInspect: find out which fields of the object that has Decision.UID have drifted.
	DoInspect
	// DoRefresh: write the desired log position to the object that has Decision.UID.
	DoRefresh
	// DoRemove: delete the object that has Decision.UID.
	DoRemove
	// DoLetGo: orphan the object that has Decision.UID: remove our ownership metadata from it.
	DoLetGo
	// DoForget: the target has no object; delete the record.
	DoForget
	// DoHurry: the object that has Decision.UID is terminating; end its wait for its Pods.
	DoHurry
	// DoVerifyKind: the resource is not served; find out whether it is deleted.
	DoVerifyKind
	// DoClaim: record an object that is ours but is neither recorded nor desired, so that it is removed like any
	// other.
	DoClaim
	// DoInherit: take over an object of a location that this one replaces.
	DoInherit
)

// Waits for changes that no watch shows.
const (
	ForeignRetry     = time.Minute
	TerminatingRetry = 30 * time.Second
	strayRetry       = time.Minute
)

// Decision is what the agent does about one identity, and what it reports if the action does not change the
// report.
type Decision struct {
	Do  Action
	UID string
	// Drift is true if the object at the target differs from the result of our last apply.
	Drift bool
	// Adopt is true if the object at the target is not ours yet. Again is true if the object is unchanged since
	// our last apply, which admission had changed.
	Adopt bool
	Again bool
	// Left is true if the object gets our ownership metadata, and its drift stays.
	Left    bool
	State   wire.State
	Reason  string
	Message string
	// Completed is the state in which the desired Job or Pod ended. It is empty while the object has not ended.
	Completed string
	// Retry is the wait before the next decision if no event comes; zero: no retry.
	Retry time.Duration
	// Proof is the proof for which the object waits, if any.
	Proof ownership.Proof
	// Withheld is true if a change of the target waits until the agent may make changes.
	Withheld bool
}

// Terminating returns the decision about an object whose deletion has begun. The object may own Pods if pods is
// true.
func Terminating(pods bool) Decision {
	d := Decision{State: wire.Removing, Reason: v1alpha1.ReasonTerminating, Retry: TerminatingRetry}
	if pods {
		d.Message = "it is gone when its Pods have ended"
	}
	return d
}

// Applied returns the decision about an object that is as desired.
func Applied(s store.Source) Decision {
	if s.Policy.CreateOnly {
		return Decision{State: wire.Applied, Reason: v1alpha1.ReasonCreateOnly, Message: "it was made and is not changed afterwards"}
	}
	return Decision{State: wire.Applied}
}

// Left returns the decision about an object whose name is in use at the location, by an earlier object of the
// space whose onRemove was Orphan.
func Left() Decision {
	return Decision{
		State: wire.InConflict, Reason: v1alpha1.ReasonExists, Retry: ForeignRetry,
		Message: "the object at the location is of one of this name that was deleted in the space, and whose onRemove was Orphan; " +
			"this one is made when that is deleted there",
	}
}

// unprovenWait returns the decision about an object that waits for a proof.
func unprovenWait(p ownership.Proof) Decision {
	d := Decision{Proof: p}
	if p == ownership.Missing {
		d.State, d.Reason = wire.Waiting, v1alpha1.ReasonLogUnproven
		d.Message = "the object at the location was written by a log that this hub's does not continue, as far as is known; " +
			"it is left alone until the log is accepted"
	}
	return d
}
