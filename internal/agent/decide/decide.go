package decide

import (
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Facts are what a decision is made from.
type Facts struct {
	// Space is that of the source object, and Want its desired entry; nil: the
	// object is not desired.
	Space  key.Space
	Want   *store.Want
	Record *store.Record
	Seen   Observed
	// Former says that the object has the marks of an earlier location of the same name,
	// so that no list shows it; Looked says that the target was asked for it.
	Former, Looked bool
	// Confirms says that the hub is to be told that nothing is there, or was told that
	// something is about to be, so that what is not known has to be found out.
	Confirms bool
	// Yields says that what is there of the space's is let go.
	Yields bool
	// Guarded says that the removal waits for a confirmation.
	Guarded bool
	// Provided reports whether the cluster itself makes the object, in every namespace, see IsProvided.
	Provided bool
	// Completed is how the desired Job or Pod ran to its end, so that it must not run
	// again; empty: it has not. Reported says that the last report has it as applied.
	Completed string
	Reported  bool
	// Traced says that nothing is recorded, but an object of ours may still be there,
	// which the first list of the kind will show.
	Traced bool
	// Remembered is true if only a report is left, by which an object of ours was at the target, and the kind is of
	// an aggregated API: such an object outlives a time in which the kind is not served.
	Remembered bool
	// Again is how long to wait until what admission changes is applied again.
	Again time.Duration
	// Lingers is how long the report of an orphaned object still stays.
	Lingers time.Duration
	// Proof says whether the object that was seen is proven to be written from the hub's log.
	Proof ownership.Proof
	// Pods says that the object at the target may own Pods, Overdue that it has been
	// terminating for longer than those may take.
	Pods, Overdue bool
	// Settled says that a session has proved the desired content to be complete: what is
	// not in it is not desired.
	Settled bool
}

// On decides about one identity. It is a pure function.
func On(f Facts) Decision {
	switch {
	case f.Want == nil:
		return decideRemoval(f)
	case f.Want.Kind == store.WantConflict:
		return Decision{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}
	case f.Want.Object() == nil:
		return Decision{State: wire.Held, Reason: v1alpha1.ReasonNothingToKeep, Message: f.Want.Detail}
	}
	d := decideObject(f, *f.Want.Object())
	if d.makes() && f.Want.Unannounced && (f.Record == nil || f.Record.Space != f.Space) {
		return Decision{
			State: wire.Waiting, Reason: v1alpha1.ReasonAnnounced,
			Message: "it is made once the hub has noted that the location is about to have it, which its deletion waits for",
		}
	}
	return d
}

// makes says that the object may be at the target after that, and was not before.
func (d Decision) makes() bool { return d.Do == DoApply || d.Do == DoMark || d.Do == DoInherit }

func decideObject(f Facts, s store.Source) Decision {
	seen, rec := f.Seen, f.Record
	changed := f.changed(s)
	switch seen.Presence {
	case Unseen:
		return Decision{} // the first list of the kind gives it another turn
	case Unserved:
		return Decision{State: wire.Unsupported, Reason: v1alpha1.ReasonNoSuchResource, Message: "the location does not serve this resource"}
	case Present:
		switch {
		case !seen.Terminating && f.Proof.Waits():
			return unprovenWait(f.Proof)
		case !seen.Terminating:
			return decidePresent(f, s, changed)
		}
	}
	switch {
	case f.Former && !f.Looked && (seen.Presence == Absent || seen.Presence == Blind):
		return Decision{Do: DoLook}
	case f.Completed != "" && rec != nil && !f.Looked && seen.Presence == Absent: // it may be there without its marks
		return Decision{Do: DoLook}
	case f.Completed != "":
		return Decision{State: wire.Applied, Reason: v1alpha1.ReasonCompleted}
	case seen.Presence == Present && f.Overdue:
		return Decision{Do: DoHurry, UID: seen.UID}
	case seen.Presence == Present:
		return Decision{
			State: wire.Waiting, Reason: v1alpha1.ReasonTerminating, Retry: TerminatingRetry,
			Message: "the object at the location is being deleted; it is made again when it is gone",
		}
	case seen.Presence == Foreign && (f.adopts(s) || seen.Inherited) && f.Proof.Waits():
		return unprovenWait(f.Proof)
	case seen.Presence == Foreign && seen.Inherited:
		return Decision{Do: DoInherit, UID: seen.UID}
	case seen.Presence == Foreign:
		return decideForeign(f, s)
	case seen.Presence == Blind && f.Guarded && rec.Recreates(s):
		return recreationWaits()
	case seen.Presence == Blind && !changed && !f.MarksChanged(s) && f.PairChanged(s):
		return Decision{Do: DoRefresh, UID: rec.UID}
	case seen.Presence == Blind && !changed && !f.MarksChanged(s):
		return f.standing(s, rec.UID)
	case seen.Presence == Blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s) && f.MarksChanged(s):
		return Decision{Do: DoMark, UID: rec.UID}
	case seen.Presence == Blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s):
		return Decision{Do: DoNote, UID: rec.UID}
	case seen.Presence == Blind && rec != nil:
		return Decision{Do: DoApply, UID: rec.UID}
	case seen.Taken:
		return Decision{Do: DoLook}
	}
	return Decision{Do: DoApply, Drift: !changed}
}

// replaced says that the record is of another source object.
func (f Facts) replaced(s store.Source) bool {
	return f.Record != nil && (f.Record.Space != f.Space || f.Record.Source.UID != s.UID)
}

// changed says that what was applied last is not what is desired now. Values that were
// not enforced, since the object was CreateOnly or they were released, may be anything.
func (f Facts) changed(s store.Source) bool {
	was := f.Record
	if was == nil || f.replaced(s) || was.Source.Digest != s.Digest {
		return true
	}
	p := was.Source.Policy
	return !s.Policy.CreateOnly && (p.CreateOnly || p.Release != s.Policy.Release || s.Policy.Release == "" && f.Seen.Released)
}

// MarksChanged says that the marks at the target that say what becomes of the object, and
// who acts for it, are not as the policy is now.
func (f Facts) MarksChanged(s store.Source) bool {
	if f.Record == nil {
		return false
	}
	was := f.Record.Source.Policy
	return was.Orphan != s.Policy.Orphan || was.ServiceAccount != s.Policy.ServiceAccount
}

// Rewritten reports whether the object was written at another place in the log than the agent has
// recorded: by one that had the shard before, since all of a location write as one manager, or by
// a request that was given up and came late.
func (f Facts) Rewritten() bool {
	if f.Record == nil {
		return false
	}
	was := f.Record.Source.Log
	return !was.IsZero() && !f.Seen.Log.IsZero() && was != f.Seen.Log
}

// recreationWaits is the decision about an object whose removal, to make it anew, is to be confirmed.
func recreationWaits() Decision {
	return Decision{
		State: wire.Waiting, Reason: v1alpha1.ReasonPruneGuard,
		Message: "it can't be changed in place: it is deleted and made anew when that is confirmed, since there are more removals than the location allows at once",
	}
}

// decidePresent is about an object at the target that is ours.
func decidePresent(f Facts, s store.Source, changed bool) Decision {
	seen, rec := f.Seen, f.Record
	known := rec != nil && seen.UID == rec.UID
	asLeft := known && seen.Fields == rec.Fields // even if an earlier location of the name left it
	same := asLeft && !seen.Unmarked && !(known && f.Rewritten())
	switch {
	case known && f.Guarded && rec.Recreates(s):
		return recreationWaits()
	case s.Policy.CreateOnly && !f.replaced(s):
		switch {
		case seen.Unmarked: // the watch does not show it, so its deletion would go unseen
			return Decision{Do: DoMark, UID: seen.UID, Drift: known && !changed}
		case known && f.MarksChanged(s):
			return Decision{Do: DoMark, UID: seen.UID}
		case !known || changed || f.Former:
			return Decision{Do: DoNote, UID: seen.UID}
		case f.PairChanged(s):
			return Decision{Do: DoRefresh, UID: seen.UID}
		}
		return Applied(s)
	case same && !changed && f.MarksChanged(s), asLeft && !changed && f.Former:
		return Decision{Do: DoApply, UID: seen.UID}
	case known && !changed && f.Former && seen.Unmarked && s.Policy.ReportDrift:
		return Decision{Do: DoMark, UID: seen.UID, Left: true}
	case known && !changed && !seen.Unmarked && f.PairChanged(s) && (same || s.Policy.ReportDrift):
		return Decision{Do: DoRefresh, UID: seen.UID}
	case same && !changed && f.Completed != "":
		return Decision{State: wire.Applied, Reason: v1alpha1.ReasonCompleted}
	case same && !changed:
		return f.standing(s, seen.UID)
	case s.Policy.ReportDrift && (known && !changed || rec == nil && (f.Reported || seen.Heirloom)):
		return Decision{Do: DoInspect, UID: seen.UID}
	}
	return Decision{Do: DoApply, UID: seen.UID, Drift: !changed}
}

// adopts reports whether an object that is not ours becomes ours.
func (f Facts) adopts(s store.Source) bool { return (s.Policy.Adopt || f.Provided) && !f.Seen.Owned }

// decideForeign is about an object at the target that is not ours.
func decideForeign(f Facts, s store.Source) Decision {
	seen := f.Seen
	switch {
	case f.adopts(s) && s.Policy.CreateOnly:
		return Decision{Do: DoMark, UID: seen.UID, Adopt: true}
	case f.adopts(s):
		return Decision{Do: DoApply, UID: seen.UID, Adopt: true}
	}
	d := Decision{
		State: wire.InConflict, Reason: v1alpha1.ReasonExists, Retry: ForeignRetry,
		Message: "an object of this name that Orrery did not make is at the location; ",
	}
	if s.Policy.Adopt || f.Provided {
		d.Message += "it is not adopted, since a controller or another location has it"
	} else {
		d.Message += "it is left alone until it is deleted there, or onConflict of the Placement is Adopt"
	}
	return d
}

func decideRemoval(f Facts) Decision {
	seen, rec := f.Seen, f.Record
	switch {
	case rec == nil && f.Lingers > 0 && !f.Confirms:
		return Decision{Retry: f.Lingers}
	case rec == nil && seen.Presence == Present && f.Settled && f.Proof.Waits():
		return unprovenWait(f.Proof)
	case rec == nil && seen.Presence == Present && f.Settled:
		return Decision{Do: DoClaim, UID: seen.UID}
	case rec == nil && seen.Presence == Present: // the hub may desire it; the agent cannot tell yet
		return Decision{Retry: strayRetry, Proof: f.Proof}
	case rec == nil && seen.Presence == Unseen && (f.Traced || f.Confirms):
		return Decision{} // the first list of the kind gives it another turn
	case rec == nil && seen.Presence == Unserved && f.Remembered:
		return Away()
	case rec == nil && seen.Presence == Blind && (f.Confirms || f.Remembered) && !f.Looked:
		return Decision{Do: DoLook}
	case rec == nil:
		return Decision{Do: DoForget}
	case f.Guarded && !rec.Source.Policy.Orphan && !f.Yields && !f.Provided:
		return Decision{
			State: wire.Removing, Reason: v1alpha1.ReasonPruneGuard,
			Message: "more removals than the location allows at once; this one waits for a confirmation",
		}
	case seen.Presence == Unseen:
		return Decision{}
	case seen.Presence == Unserved:
		return Decision{Do: DoVerifyKind}
	case seen.Presence == Present && seen.UID == rec.UID && seen.Terminating && !seen.Unmarked: // the watch shows when it is gone
		if f.Overdue {
			return Decision{Do: DoHurry, UID: rec.UID}
		}
		return Terminating(f.Pods)
	case rec.Source.Policy.Orphan, f.Yields, f.Provided:
		return Decision{Do: DoLetGo, UID: rec.UID}
	}
	return Decision{Do: DoRemove, UID: rec.UID}
}

// Away is the decision about an object that is to be removed and whose aggregated API is not served.
func Away() Decision {
	return Decision{
		State: wire.Removing, Reason: v1alpha1.ReasonNoSuchResource, Retry: time.Minute,
		Message: "the location does not serve this resource now; the object may still be there, and is removed when an API server serves it again",
	}
}

// PairChanged says that the pair at the target is not the desired one.
func (f Facts) PairChanged(s store.Source) bool {
	return f.Record != nil && !s.Log.IsZero() && f.Record.Source.Log != s.Log
}
