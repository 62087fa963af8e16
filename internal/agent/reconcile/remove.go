package reconcile

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// emptyingRetry is the longest wait before looking again at what is being emptied.
	emptyingRetry = 15 * time.Second
)

// wayOut explains to the user how an object that others use can be removed.
const wayOut = "; it goes when that is gone, or with it when it has the annotation " + v1alpha1.CascadeAnnotation + ": \"true\" at the location"

// remover removes what is not desired any more.
type remover struct {
	engine   *worklist.Worklist
	target   *kubeclient.Client
	users    *users
	writer   *writer
	refusals refusals
	log      *slog.Logger
}

// remove deletes the object that has the UID, unless others still use it.
func (r *remover) remove(ctx context.Context, t *turn, d decide.Decision) (outcome, error) {
	o := outcome{record: t.record}
	if theirs, err := r.anothers(ctx, t); theirs || err != nil {
		return outcome{forget: theirs, seen: r.gone(t)}, err
	}
	use, err := r.users.find(ctx, t)
	if err != nil {
		return o, err
	}
	switch {
	case use.ours, use.shared && r.users.store.Meta().Settings.Purge: // which each agent removes of its own
		o.State, o.Reason, o.Message, o.failed = wire.Removing, v1alpha1.ReasonNotEmpty, wire.Brief(cmp.Or(use.going, use.foreign)), true
		o.Retry = retry.Backoff(t.view.Failures, retry.First, emptyingRetry)
		return o, nil
	case use.foreign != "":
		m, err := r.target.Get(ctx, t.view.Place, t.id)
		switch {
		case kubeclient.MissingObject(err, t.id):
			return outcome{forget: true, seen: r.gone(t)}, nil
		case err == nil && m.UID != d.UID:
			return r.replaced(t, &m), nil
		case err != nil:
			return o, err
		case use.desired || !cascades(&m):
			o.State, o.Reason, o.Message, o.Retry = wire.Orphaned, v1alpha1.ReasonInUse, wire.Brief(use.foreign), r.users.again(t.id, t.view.State != wire.Orphaned)
			o.failed = use.lasting
			if !use.desired {
				o.Message += wayOut
			}
			return o, nil
		}
	}
	r.users.unused(t.id)
	how, err := r.propagation(ctx, t)
	if err != nil {
		return o, err
	}
	gone, err := r.target.Remove(ctx, t.view.Place, t.id, d.UID, how)
	switch {
	case err == nil && !gone:
		o.Decision = decide.Terminating(decide.OwnsPods(t.id.Resource))
		if t.view.Seen.Existence == decide.Present && t.view.Seen.UID == d.UID {
			seen := t.view.Seen
			seen.Terminating = true
			o.seen = &seen
		}
		return o, nil
	case kubeclient.PreconditionFailed(err):
		return r.removalRefused(ctx, t, d, err)
	case kubeclient.MissingKind(err):
		return r.verifyKind(ctx, t)
	case err != nil && !kubeclient.MissingObject(err, t.id) && !kubeclient.MissingNamespace(err, t.id):
		return o, err
	}
	r.log.Debug("removed", "object", t.object().Path())
	return outcome{forget: true, seen: r.gone(t)}, nil
}

// anothers reports whether the object to remove has the marks of another shard by now, whatever
// its UID. Then it belongs to that shard.
func (r *remover) anothers(ctx context.Context, t *turn) (bool, error) {
	if t.shard.Whole() {
		return false, nil
	}
	m, err := r.target.Get(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || kubeclient.MissingNamespace(err, t.id) || kubeclient.MissingKind(err) {
		return false, nil // the removal finds out
	}
	return err == nil && m.ProvesOthers(t.view.As, t.kind()), err
}

// gone is what to note as observed of an object that is known to be deleted.
func (r *remover) gone(t *turn) *decide.Observed {
	if t.record != nil && t.view.Seen.Existence == decide.Present && t.view.Seen.UID != t.record.UID {
		return nil // what was observed is another object of ours
	}
	return &decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}
}

// replaced is the outcome if another object has the name of the one that was to be removed.
// It may be ours, too, as from a backup of the cluster.
func (r *remover) replaced(t *turn, m *ownership.Meta) outcome {
	if _, ours := m.ProvesOurs(t.view.As, t.kind()); ours {
		return outcome{forget: true, again: true, keep: true, seen: decide.ObservedOf(m, t.view.As)}
	}
	return outcome{forget: true, seen: r.gone(t)}
}

// removalRefused finds out whether another object has the name by now, or
// whether ours is still there and being deleted.
func (r *remover) removalRefused(ctx context.Context, t *turn, d decide.Decision, refused error) (outcome, error) {
	m, err := r.target.Get(ctx, t.view.Place, t.id)
	switch {
	case kubeclient.MissingObject(err, t.id):
		return outcome{forget: true, seen: r.gone(t)}, nil
	case err == nil && m.UID != d.UID:
		return r.replaced(t, &m), nil
	case err != nil:
		return outcome{}, err
	case m.DeletionTimestamp == "":
		return r.refusals.outcome(t, refused), nil
	}
	return outcome{record: t.record, Decision: decide.Terminating(decide.OwnsPods(t.id.Resource))}, nil
}

// verifyKind finds out whether the resource is gone, and all its objects with it, or
// whether the target only fails to serve it, or serves it again. Objects of built-in kinds and of
// aggregated APIs are not gone when a target stops serving them.
func (r *remover) verifyKind(ctx context.Context, t *turn) (outcome, error) {
	crd := kubeclient.DefinitionOf(t.id.Resource)
	d, err := r.target.Definition(ctx, crd)
	if err != nil && !kubeclient.MissingKind(err) && !kubeclient.MissingObject(err, crd) {
		return outcome{}, err
	}
	gone := outcome{forget: true, seen: &decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}}
	o := outcome{record: t.record, Decision: decide.Decision{
		State: wire.Removing, Reason: v1alpha1.ReasonNoSuchResource, Retry: time.Minute,
		Message: "the location does not serve this resource now",
	}}
	switch {
	case err == nil && !d.Defines(t.id): // the definition of the object is gone, and has taken it along
		return gone, nil
	case !kubeclient.MissingObject(err, crd), t.id.Builtin():
		return o, nil
	case r.users.store.Meta().IsAggregated(t.id.Resource):
		o.Decision = decide.Away()
		return o, nil
	}
	now, err := r.target.Find(ctx, t.id.Resource)
	if err != nil {
		return outcome{}, err
	}
	if now.Version == "" {
		return gone, nil
	}
	return o, nil
}
