package reconcile

import (
	"context"

	"orrery.dev/orrery/apis/v1alpha1"
)

// trace has a resource observed of which the agent knows only reports from before its
// store was lost: the objects may still be at the target. It returns false if the target
// does not serve the resource.
func (r *Reconciler) trace(ctx context.Context, t *turn) (bool, error) {
	if t.view.Place.Version != "" {
		return true, nil
	}
	served, err := r.Target.Find(ctx, t.id.Resource)
	if err != nil || served.Version == "" {
		return false, err
	}
	r.Engine.Teach(served)
	return true, nil
}

// traced reports whether only a report is left of the identity, and an object of ours was at the
// target by it, or may be.
func (t *turn) traced() bool {
	if t.winner >= 0 || t.record != nil {
		return false
	}
	r := t.before[t.object().Space]
	return r != nil && (!r.Digest.IsZero() && r.Reason != v1alpha1.ReasonReleased || r.Aggregated) || t.announced()
}

// announced reports whether no space desires the object, and its last report is that it is about
// to be created. If the agent was killed right then, it may have been.
func (t *turn) announced() bool {
	if t.winner >= 0 || t.record != nil {
		return false
	}
	for _, r := range t.before {
		if r != nil && r.Reason == v1alpha1.ReasonAnnounced {
			return true
		}
	}
	return false
}
