package reconcile

import (
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// An object at the target that proves to be ours but is not recorded was written by an
// agent that has lost its store, or was killed right after the write. It need not be
// from the log that the hub has now: a hub that was restored from an older copy knows
// nothing of later writes, and would delete them or set them back. So such an object is
// changed or removed only if the place in the log that it names is in the hub's log. The
// hub is asked which places are: once for each marker and session, in batches.

// prove returns the state of the proof for the object under the identity.
func (r *Reconciler) prove(t *turn, seen decide.Observed) ownership.Proof {
	switch {
	case t.record != nil:
		return ownership.Unneeded
	case seen.Existence == decide.Present && !seen.Unmarked: // it is ours by its marks alone
	case seen.Existence == decide.Foreign && seen.Inherited: // another location wrote it
	case seen.Existence == decide.Foreign && !seen.Log.IsZero() && t.adopts(): // an earlier location of the name wrote it
	default:
		return ownership.Unneeded
	}
	if !seen.Log.IsZero() && slices.Contains(t.delivered, seen.Log) {
		return ownership.Given // the store has the entry from which it was written
	}
	return r.Prover.Check(t.id.String(), seen.Log, time.Now())
}

// adopts reports whether a foreign object is adopted: by the policy, or since the cluster makes it itself.
func (t *turn) adopts() bool {
	w := t.want()
	return w != nil && w.Object() != nil && (w.Object().Policy.Adopt || decide.IsProvided(t.id))
}

// guardedBefore reports whether by the last report the removal of the object waits for a
// confirmation.
func (t *turn) guardedBefore() bool {
	before := t.before[t.object().Space]
	return t.winner < 0 && before != nil && before.State == wire.Removing && before.Reason == v1alpha1.ReasonPruneGuard
}
