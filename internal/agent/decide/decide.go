package decide

import (
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Facts are the input of a decision.
type Facts struct {
	// Space is the space of the source object. Want is the desired entry; it is nil if the object is not
	// desired.
	Space  key.Space
	Want   *store.Want
	Record *store.Record
	Seen   Observed
	// Former is true if the object has the ownership metadata of an earlier location of the same name, so that
	// no list returns it. Inspected is true if the agent has read the object from the target for this decision.
	Former, Inspected bool
	// Confirms is true if the hub waits for a report that the object is absent, or has been notified that the
	// agent will create it. Then the agent must find out facts that it does not know.
	Confirms bool
	// Yields is true if the agent gives up its ownership of the space's object at the target, without deleting
	// it.
	Yields bool
	// Guarded is true if the removal waits for a confirmation by the removal guard.
	Guarded bool
	// Provided reports whether the cluster itself makes the object, in every namespace, see IsProvided.
	Provided bool
	// Completed is the state in which the desired Job or Pod ended, so that it must not run again. It is empty
	// while the object has not ended. Reported is true if the last report has state Applied.
	Completed string
	Reported  bool
	// Traced is true if the agent has no record of an object but may have created one, which the first list of
	// the kind will return.
	Traced bool
	// Remembered is true if the agent has no record but the hub has a report of an object at the target, and the
	// kind belongs to an aggregated API. Such an object continues to exist while the API is not served.
	Remembered bool
	// Again is the remaining wait before the agent repeats an apply that admission at the target has changed.
	Again time.Duration
	// Lingers is how much longer the report of an orphaned object is kept.
	Lingers time.Duration
	// Proof reports whether the observed object was written from the hub's log.
	Proof ownership.Proof
	// Pods is true if the object at the target may own Pods. Overdue is true if its deletion has taken longer
	// than those Pods may take to end.
	Pods, Overdue bool
	// DesiredComplete is true if a session has proved that the agent has all desired objects. An object that is
	// not among them is not desired.
	DesiredComplete bool
}

// Decide returns the decision about one identity. It is a pure function.
func Decide(f Facts) Decision {
	switch {
	case f.Want == nil:
		return decideRemoval(f)
	case f.Want.Kind == store.WantConflict:
		return Decision{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}
	case f.Want.Object() == nil:
		return Decision{State: wire.Held, Reason: v1alpha1.ReasonNothingToKeep, Message: f.Want.Detail}
	}
	d := decideObject(f, *f.Want.Object())
	if d.creates() && f.Want.Unannounced && (f.Record == nil || f.Record.Space != f.Space) {
		return Decision{
			State: wire.Waiting, Reason: v1alpha1.ReasonAnnounced,
			Message: "it is made once the hub has noted that the location is about to have it, which its deletion waits for",
		}
	}
	return d
}

// creates reports whether the action may create the object at the target.
func (d Decision) creates() bool { return d.Do == DoApply || d.Do == DoMark || d.Do == DoInherit }

func decideObject(f Facts, s store.Source) Decision {
	seen, rec := f.Seen, f.Record
	changed := f.changed(s)
	switch seen.Existence {
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
	case f.Former && !f.Inspected && (seen.Existence == Absent || seen.Existence == Blind):
		return Decision{Do: DoLook}
	case f.Completed != "" && rec != nil && !f.Inspected && seen.Existence == Absent: // it may exist without its ownership metadata
		return Decision{Do: DoLook}
	case f.Completed != "":
		return Decision{State: wire.Applied, Reason: v1alpha1.ReasonCompleted}
	case seen.Existence == Present && f.Overdue:
		return Decision{Do: DoHurry, UID: seen.UID}
	case seen.Existence == Present:
		return Decision{
			State: wire.Waiting, Reason: v1alpha1.ReasonTerminating, Retry: TerminatingRetry,
			Message: "the object at the location is being deleted; it is made again when it is gone",
		}
	case seen.Existence == Foreign && (f.adopts(s) || seen.Inherited) && f.Proof.Waits():
		return unprovenWait(f.Proof)
	case seen.Existence == Foreign && seen.Inherited:
		return Decision{Do: DoInherit, UID: seen.UID}
	case seen.Existence == Foreign:
		return decideForeign(f, s)
	case seen.Existence == Blind && f.Guarded && rec.Recreates(s):
		return recreationWaits()
	case seen.Existence == Blind && !changed && !f.MarksChanged(s) && f.PairChanged(s):
		return Decision{Do: DoRefresh, UID: rec.UID}
	case seen.Existence == Blind && !changed && !f.MarksChanged(s):
		return f.unchanged(s, rec.UID)
	case seen.Existence == Blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s) && f.MarksChanged(s):
		return Decision{Do: DoMark, UID: rec.UID}
	case seen.Existence == Blind && rec != nil && s.Policy.CreateOnly && !f.replaced(s):
		return Decision{Do: DoNote, UID: rec.UID}
	case seen.Existence == Blind && rec != nil:
		return Decision{Do: DoApply, UID: rec.UID}
	case seen.Taken:
		return Decision{Do: DoLook}
	}
	return Decision{Do: DoApply, Drift: !changed}
}

// replaced reports whether the record belongs to another source object.
func (f Facts) replaced(s store.Source) bool {
	return f.Record != nil && (f.Record.Space != f.Space || f.Record.Source.UID != s.UID)
}

// changed reports whether the desired object differs from the one that was applied last. Values that the agent
// did not enforce may have any content: those of a CreateOnly object, and released ones.
func (f Facts) changed(s store.Source) bool {
	previous := f.Record
	if previous == nil || f.replaced(s) || previous.Source.Digest != s.Digest {
		return true
	}
	p := previous.Source.Policy
	return !s.Policy.CreateOnly && (p.CreateOnly || p.Release != s.Policy.Release || s.Policy.Release == "" && f.Seen.Released)
}

// MarksChanged reports whether the ownership metadata at the target differs from the policy. This metadata names
// the ServiceAccount that acts for the object, and what happens to the object when it is no longer desired.
func (f Facts) MarksChanged(s store.Source) bool {
	if f.Record == nil {
		return false
	}
	previous := f.Record.Source.Policy
	return previous.Orphan != s.Policy.Orphan || previous.ServiceAccount != s.Policy.ServiceAccount
}

// Rewritten reports whether the object at the target names another log position than the record does. Another
// agent wrote it then, which had the shard before, since all agents of a location are one field manager. Or a
// request that the agent had given up arrived late.
func (f Facts) Rewritten() bool {
	if f.Record == nil {
		return false
	}
	recorded := f.Record.Source.Log
	return !recorded.IsZero() && !f.Seen.Log.IsZero() && recorded != f.Seen.Log
}

// recreationWaits returns the decision about an object whose deletion, for its recreation, waits for a
// confirmation.
func recreationWaits() Decision {
	return Decision{
		State: wire.Waiting, Reason: v1alpha1.ReasonPruneGuard,
		Message: "it can't be changed in place: it is deleted and made anew when that is confirmed, since there are more removals than the location allows at once",
	}
}

// decidePresent returns the decision about an object of ours at the target.
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
		return f.unchanged(s, seen.UID)
	case s.Policy.ReportDrift && (known && !changed || rec == nil && (f.Reported || seen.Heirloom)):
		return Decision{Do: DoInspect, UID: seen.UID}
	}
	return Decision{Do: DoApply, UID: seen.UID, Drift: !changed}
}

// adopts reports whether the agent adopts an object that is not ours.
func (f Facts) adopts(s store.Source) bool { return (s.Policy.Adopt || f.Provided) && !f.Seen.Owned }

// decideForeign returns the decision about an object at the target that is not ours.
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
	case rec == nil && seen.Existence == Present && f.DesiredComplete && f.Proof.Waits():
		return unprovenWait(f.Proof)
	case rec == nil && seen.Existence == Present && f.DesiredComplete:
		return Decision{Do: DoClaim, UID: seen.UID}
	case rec == nil && seen.Existence == Present: // the hub may desire it; the agent does not know yet
		return Decision{Retry: strayRetry, Proof: f.Proof}
	case rec == nil && seen.Existence == Unseen && (f.Traced || f.Confirms):
		return Decision{} // the first list of the kind starts another decision
	case rec == nil && seen.Existence == Unserved && f.Remembered:
		return Away()
	case rec == nil && seen.Existence == Blind && (f.Confirms || f.Remembered) && !f.Inspected:
		return Decision{Do: DoLook}
	case rec == nil:
		return Decision{Do: DoForget}
	case f.Guarded && !rec.Source.Policy.Orphan && !f.Yields && !f.Provided:
		return Decision{
			State: wire.Removing, Reason: v1alpha1.ReasonPruneGuard,
			Message: "more removals than the location allows at once; this one waits for a confirmation",
		}
	case seen.Existence == Unseen:
		return Decision{}
	case seen.Existence == Unserved:
		return Decision{Do: DoVerifyKind}
	case seen.Existence == Present && seen.UID == rec.UID && seen.Terminating && !seen.Unmarked: // the watch shows the end of its deletion
		if f.Overdue {
			return Decision{Do: DoHurry, UID: rec.UID}
		}
		return Terminating(f.Pods)
	case rec.Source.Policy.Orphan, f.Yields, f.Provided:
		return Decision{Do: DoLetGo, UID: rec.UID}
	}
	return Decision{Do: DoRemove, UID: rec.UID}
}

// Away returns the decision about an object that is to be removed, and whose aggregated API is not served.
func Away() Decision {
	return Decision{
		State: wire.Removing, Reason: v1alpha1.ReasonNoSuchResource, Retry: time.Minute,
		Message: "the location does not serve this resource now; the object may still be there, and is removed when an API server serves it again",
	}
}

// PairChanged reports whether the log position at the target differs from the desired one.
func (f Facts) PairChanged(s store.Source) bool {
	return f.Record != nil && !s.Log.IsZero() && f.Record.Source.Log != s.Log
}
