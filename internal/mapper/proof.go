package mapper

import (
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// An object at the target that proves to be ours, and of which nothing is recorded,
// was written by an agent that has lost its store, or was killed right after. The
// hub's log that this agent follows need not be the one by which it was written: a
// hub that was restored from an older copy knows nothing of what came later, and
// would have it deleted or set back. So such an object is changed or removed only if
// the place in the log that stands at it is one of the hub's log. The hub is asked
// which places are: once for each marker and session, in batches.

// prove says whether what is there under the identity needs a proof, and has it.
func (r *reconciler) prove(t *turn, seen decide.Observed) marks.Proof {
	switch {
	case t.record != nil:
		return marks.Unneeded
	case seen.Presence == decide.Present && !seen.Unmarked: // by its marks alone
	case seen.Presence == decide.Foreign && !seen.Log.IsZero() && t.adopts(): // a location of this name wrote it
	default:
		return marks.Unneeded
	}
	if !seen.Log.IsZero() && slices.Contains(t.delivered, seen.Log) {
		return marks.Given // the store has the very put by which it was written
	}
	return r.prover.Judge(t.id.String(), seen.Log, time.Now())
}

// adopts says that a foreign object of the identity is to be taken over.
func (t *turn) adopts() bool {
	w := t.want()
	return w != nil && w.Object() != nil && w.Object().Policy.Adopt
}

// prove takes note of what is known of an item's object.
func (e *engine) prove(it *item, p marks.Proof) {
	e.proofs[it.proof]--
	e.proofs[p]++
	it.proof = p
}

// guardedBefore says that the last report of the object that is to go says that this
// waits for a confirmation.
func (t *turn) guardedBefore() bool {
	said := t.before[t.object().Space]
	return t.winner < 0 && said != nil && said.State == wire.Removing && said.Reason == v1alpha1.ReasonPruneGuard
}
