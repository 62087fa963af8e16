package decide

import (
	"cmp"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Compose returns the report of one key. live is the object at the target, and before the last report, nil if
// there is none. Since stays as long as state and reason stay the same.
func Compose(w *store.Want, rec *store.Record, d Decision, live Live, before *wire.Report, now time.Time) wire.Report {
	r := wire.Report{State: d.State, Reason: d.Reason, Message: d.Message, Health: live.Health, HealthNote: live.Detail, Diagnosis: live.Diagnosis}
	nothing := d.Proof == ownership.Missing || d.Reason == v1alpha1.ReasonAnnounced || d.Withheld || rec == nil && d.State == wire.Removing
	if nothing && before != nil && (w == nil || w.Leaf.UID == before.UID) {
		// The object that was applied last is unchanged, and the last report may be all that the agent knows of
		// it.
		r.UID, r.Generation, r.Digest, r.Orphan = before.UID, before.Generation, before.Digest, before.Orphan
	}
	if rec != nil {
		r.UID, r.Digest, r.Generation = rec.Source.UID, rec.Source.Digest, rec.Source.Generation
		r.Orphan = rec.Source.Policy.Orphan
		if w == nil && rec.LetGo != nil {
			r.Cause, r.LetGoBy = rec.LetGo.Cause, rec.LetGo.Placement
		}
	}
	if w != nil {
		r.UID = w.Leaf.UID
		if o := w.Object(); o != nil {
			r.Generation, r.Orphan = o.Generation, o.Policy.Orphan
			if d.Completed != "" {
				r.Completed, r.Digest = d.Completed, o.Digest
			}
			if o.Policy.ReturnStatus && rec != nil {
				r.Status, r.Wanted = sourceStatus(live.Status, rec), live.Wanted
			}
		}
		switch {
		case w.Deferred:
			r.State, r.Reason = wire.Waiting, v1alpha1.ReasonLogUnproven
			r.Message = "a change waits until the hub's log is accepted as the continuation of the one before"
		case w.Kind == store.WantHold:
			r.State, r.Reason, r.Message = wire.Held, cmp.Or(w.Reason, v1alpha1.ReasonNotRendered), w.Detail
		}
	}
	r.Since = now.UTC().Format(time.RFC3339)
	if before != nil && before.State == r.State && before.Reason == r.Reason {
		r.Since = before.Since
	}
	return r
}

// Removed returns the report of an object that is not desired and does not exist at the target. before is the
// last report, nil if there is none.
func Removed(w *store.Want, before *wire.Report, now time.Time) wire.Report {
	r := wire.Report{UID: w.Leaf.UID, State: wire.Removed, Since: now.UTC().Format(time.RFC3339)}
	if before != nil && before.State == r.State && before.UID == r.UID {
		r.Since = before.Since
	}
	return r
}

// Loses returns the decision about an entry that Choose did not choose.
func Loses() Decision {
	return Decision{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace}
}
