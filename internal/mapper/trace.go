package mapper

import (
	"context"

	"orrery.dev/orrery/internal/mapper/target"
)

// trace has a resource observed of which the agent knows only reports from before its
// store was lost: the objects may still be at the target. It returns false if the target
// does not serve the resource.
func (r *reconciler) trace(ctx context.Context, t *turn) (bool, error) {
	if t.view.at.Version != "" {
		return true, nil
	}
	at, err := r.target.Find(ctx, t.id.Resource)
	if err != nil || at.Version == "" {
		return false, err
	}
	r.engine.teach(at)
	return true, nil
}

// traced says that only a report is left of the identity, and that by it an object of
// ours was at the target.
func (t *turn) traced() bool {
	if t.winner >= 0 || t.record != nil {
		return false
	}
	r := t.before[t.object().Space]
	return r != nil && !r.Digest.IsZero() && r.Reason != reasonLetGo
}

// teach sets the version and kind in which a resource is observed, unless they are known.
func (e *engine) teach(s target.Served) {
	e.mu.Lock()
	k := e.kinds[s.Resource]
	news := k != nil && k.version == ""
	if news {
		k.version, k.name = s.Version, s.Kind
	}
	e.mu.Unlock()
	if news {
		e.news.Raise()
	}
}
