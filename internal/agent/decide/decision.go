package decide

import (
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Action is what to do at the target.
type Action uint8

const (
	// DoNothing: there is nothing to do, or nothing can be done now.
	DoNothing Action = iota
	// DoApply: apply the object, provided that the one at the target has Decision.UID,
	// or that there is none if that is empty.
	DoApply
	// DoLook: find out whose object is there.
	DoLook
	// DoNote: record the object that has Decision.UID as it is.
	DoNote
	// DoMark: give the object that has Decision.UID our marks, change nothing else of
	// it, and record it.
	DoMark
	// DoInspect: find out which fields of the object that has Decision.UID have drifted.
	DoInspect
	// DoRefresh: write the desired pair to the object that has Decision.UID.
	DoRefresh
	// DoRemove: delete the object that has Decision.UID.
	DoRemove
	// DoLetGo: orphan the object that has Decision.UID: take our marks from it.
	DoLetGo
	// DoForget: nothing is left at the target; drop the record.
	DoForget
	// DoHurry: the object that has Decision.UID is terminating; have it no longer wait
	// for its Pods.
	DoHurry
	// DoVerifyKind: the resource is not served; find out whether it is gone.
	DoVerifyKind
	// DoClaim: an object proves to be ours but is neither recorded nor desired; record
	// it, so that it is removed like any other.
	DoClaim
	// DoInherit: the object is of a location that this one takes over; make it this one's.
	DoInherit
)

// How long to wait for changes that no watch shows.
const (
	ForeignRetry     = time.Minute
	TerminatingRetry = 30 * time.Second
	strayRetry       = time.Minute
)

// Decision is what to do about one identity, and what to report of it if the action
// does not change that.
type Decision struct {
	Do  Action
	UID string
	// Drift says that the object at the target is not as we left it.
	Drift bool
	// Adopt says that the object at the target is not ours yet; Again, that it is as
	// our last apply left it, which admission had changed.
	Adopt bool
	Again bool
	// Left says that the object gets our marks, and that its drift stays.
	Left    bool
	State   wire.State
	Reason  string
	Message string
	// Completed is how the desired Job or Pod ran to its end; empty: it has not.
	Completed string
	// Retry is how long to wait before looking again without an event; zero: no retry.
	Retry time.Duration
	// Proof is the proof that the object waits for, if it waits for one.
	Proof ownership.Proof
	// Withheld is true if a change of the target waits until the agent may make changes.
	Withheld bool
}

// Terminating is the decision about an object that is being deleted; pods says that it
// may own Pods.
func Terminating(pods bool) Decision {
	d := Decision{State: wire.Removing, Reason: v1alpha1.ReasonTerminating, Retry: TerminatingRetry}
	if pods {
		d.Message = "it is gone when its Pods have ended"
	}
	return d
}

// Applied is the decision about an object that is as desired.
func Applied(s store.Source) Decision {
	if s.Policy.CreateOnly {
		return Decision{State: wire.Applied, Reason: v1alpha1.ReasonCreateOnly, Message: "it was made and is not changed afterwards"}
	}
	return Decision{State: wire.Applied}
}

// Left is the decision about an object whose name one has that was to stay when it was no longer
// assigned.
func Left() Decision {
	return Decision{
		State: wire.InConflict, Reason: v1alpha1.ReasonExists, Retry: ForeignRetry,
		Message: "the object at the location is of one of this name that was deleted in the space, and whose onRemove was Orphan; " +
			"this one is made when that is deleted there",
	}
}

// unprovenWait is the decision about an object that waits for a proof.
func unprovenWait(p ownership.Proof) Decision {
	d := Decision{Proof: p}
	if p == ownership.Missing {
		d.State, d.Reason = wire.Waiting, v1alpha1.ReasonLineageUnproven
		d.Message = "the object at the location was written by a log that this hub's does not continue, as far as is known; " +
			"it is left alone until the log is accepted"
	}
	return d
}
