package mapper

import (
	"context"

	"orrery.dev/orrery/internal/key"
)

// trace has the objects of a resource observed of which nothing but reports is
// left, from before the store was lost: what they are about may still be at the
// target. It returns false if the target does not serve the resource.
func (r *reconciler) trace(ctx context.Context, t *turn) (bool, error) {
	if t.view.at.version != "" {
		return true, nil
	}
	at, err := r.target.find(ctx, t.id.Resource)
	if err != nil || at.version == "" {
		return false, err
	}
	r.engine.teach(at)
	return true, nil
}

// traced says that nothing but a report is left of the identity, by which an
// object of ours was at the target.
func (t *turn) traced() bool {
	if t.winner >= 0 || t.record != nil {
		return false
	}
	r := t.before[t.object().Space]
	return r != nil && !r.Digest.IsZero() && r.Reason != reasonLetGo
}

// teach tells of a resource in what version and kind its objects are observed,
// if no object has told yet.
func (e *engine) teach(s served) {
	e.mu.Lock()
	k := e.kinds[s.Resource]
	news := k != nil && k.version == ""
	if news {
		k.version, k.name = s.version, s.kind
	}
	e.mu.Unlock()
	if news {
		e.kindsChanged()
	}
}

// find looks a resource up in the target's discovery, in the version to prefer of
// those that serve it; its version is empty if the target does not serve it.
func (t *target) find(ctx context.Context, r key.Resource) (served, error) {
	versions := []string{"v1"}
	if group := r.APIGroup(); group != "" {
		var err error
		if versions, err = t.versions(ctx, group); err != nil {
			return served{}, err
		}
	}
	for _, v := range versions {
		all, err := t.resources(ctx, v)
		if missingKind(err) {
			continue // it has just ended
		}
		if err != nil {
			return served{}, err
		}
		for _, found := range all {
			if found.Resource == r {
				return found, nil
			}
		}
	}
	return served{}, nil
}
