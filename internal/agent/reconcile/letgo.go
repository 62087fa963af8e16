package reconcile

import (
	"context"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// letGoFor is how long the report of an orphaned object stays.
const letGoFor = 5 * time.Second

// letGo orphans an object: it takes our marks and our managed fields from it. An object
// of the same name with our marks, but another UID, is orphaned, too.
func (r *remover) letGo(ctx context.Context, t *turn, d decide.Decision) (outcome, error) {
	m, err := r.target.Get(ctx, t.view.Place, t.id)
	if err == nil && m.ProvesOthers(t.view.As, t.kind()) {
		return outcome{forget: true, seen: r.gone(t)}, nil
	}
	if err == nil && m.UID != d.UID {
		if _, ours := m.ProvesOurs(t.view.As, t.kind()); !ours {
			return outcome{forget: true, seen: r.gone(t)}, nil
		}
	}
	if err == nil {
		m, err = r.writer.patch(ctx, t, "let go", ownership.LetGo(&m, t.view.As))
	}
	switch {
	case kubeclient.MissingObject(err, t.id), kubeclient.MissingNamespace(err, t.id):
		return outcome{forget: true, seen: r.gone(t)}, nil
	case kubeclient.MissingKind(err):
		return r.verifyKind(ctx, t)
	case err != nil:
		return outcome{}, err
	}
	r.log.Info("orphaned an object", "object", t.object().Path())
	return outcome{
		letGo: true, record: t.record, seen: &decide.Observed{Existence: decide.Absent, Revision: m.Revision()},
		Decision: decide.Decision{
			State: wire.Orphaned, Reason: v1alpha1.ReasonReleased, Retry: letGoFor,
			Message: "it stays at the location, which Orrery no longer manages there",
		},
	}, nil
}

// lingers is how much longer the report of an orphaned object stays, so that it is seen.
func (t *turn) lingers(now time.Time) time.Duration {
	r := t.before[t.object().Space]
	if r == nil || r.State != wire.Orphaned || r.Reason != v1alpha1.ReasonReleased {
		return 0
	}
	since, err := time.Parse(time.RFC3339, r.Since)
	if err != nil { // the agent did not write it
		return 0
	}
	if since.Sub(now) > letGoFor { // the clock was set back, perhaps by a day
		return 0
	}
	return min(letGoFor-now.Sub(since), letGoFor)
}
