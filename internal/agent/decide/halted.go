package decide

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Halted returns the decision for a time in which the agent must not change anything at the target. A decision
// that changes nothing stays. Any other becomes a report that a change waits, and why the agent is halted.
// before is the last report of the object, nil if there is none: a refusal in it stays until the object is
// applied again.
func Halted(f Facts, d Decision, before *wire.Report, why string) Decision {
	switch d.Do {
	case DoNothing:
		if d.State == wire.Removing && d.Reason == v1alpha1.ReasonNoSuchResource { // it would wait for the end of the halt, too
			waits := withheld(f.halts(before, why))
			waits.Retry = d.Retry
			return waits
		}
		return d
	case DoLook, DoNote, DoInspect, DoVerifyKind, DoForget, DoClaim:
		return d
	case DoRefresh:
		return f.pairWaits(*f.Want.Object())
	case DoApply:
		if d.Again {
			return withheld(MutatedBy(f.Record.Mutated, 0))
		}
	case DoMark, DoInherit, DoHurry, DoRemove, DoLetGo:
	}
	return withheld(f.halts(before, why))
}

func withheld(d Decision) Decision {
	d.Withheld = true
	return d
}

// pairWaits returns the decision about an object that is as desired except for its log position.
func (f Facts) pairWaits(s store.Source) Decision {
	if f.Completed != "" {
		return withheld(Decision{State: wire.Applied, Reason: v1alpha1.ReasonCompleted})
	}
	if m := f.Record.Mutated; m != nil && !s.Policy.CreateOnly {
		return withheld(MutatedBy(m, 0))
	}
	return withheld(Applied(s))
}

// halts returns the report of an object for which a change waits.
func (f Facts) halts(before *wire.Report, why string) Decision {
	d := Decision{State: wire.Waiting, Reason: v1alpha1.ReasonHalted}
	switch {
	case before != nil && before.Reason == v1alpha1.ReasonAnnounced && f.Record == nil: // it may have been created before a restart
		return Decision{State: before.State, Reason: before.Reason, Message: before.Message}
	case f.Want == nil:
		d.State = wire.Removing
		d.Message = "the removal waits"
	case before != nil && before.State == wire.Failed && before.UID == f.Want.Leaf.UID && before.Generation == f.Want.Object().Generation:
		return Decision{State: before.State, Reason: before.Reason, Message: before.Message}
	case f.Seen.Existence == Absent:
		d.Message = "the object, or its labels, are missing at the location, and the change waits"
	default:
		d.Message = "the object at the location differs from the one in the space, and the change waits"
	}
	d.Message = wire.Brief(d.Message + " until the halt ends: " + why)
	return d
}
