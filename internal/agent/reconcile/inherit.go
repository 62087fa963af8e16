package reconcile

import (
	"context"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// A location may take over what another, which is no more, has at the target
// (spec.takesOver). What has that one's marks, and is proven to be of the hub's log as
// anything without a record, gets the marks of this one, and is then like an object whose
// record was lost: it is applied if it is desired, and a stray if not. Strays that were
// taken over always wait for a confirmation, however few they are: a location to which
// nothing is assigned yet would else remove all that its cluster runs.
//
// The agent of the other location may still be at work. It finds that an object of its own
// names it as the one that it was taken from, and halts, unless its hub confirms that its
// location exists.

// inherit makes an object of a location that this one takes over one of this location.
func (r *Reconciler) inherit(ctx context.Context, t *turn, f decide.Facts) (outcome, error) {
	m, err := r.Target.Get(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || err == nil && m.UID != f.Seen.UID {
		return outcome{}, errLook
	}
	if err != nil {
		return outcome{}, err
	}
	from := m.ProvesAny(t.formers, t.kind())
	if from == "" || m.Log() != f.Seen.Log { // it is not as it was when its proof was looked at
		return outcome{}, errLook
	}
	if _, err := r.writer.patch(ctx, t, "take over", ownership.Succeed(&m, from, t.view.As)); err != nil {
		return outcome{}, err
	}
	r.Log.Info("took over an object of a former location", "object", t.object().Path(), "from", from)
	return outcome{}, errLook
}

// succeeded records that another location has taken over an object that was read, and
// halts the agent, unless a hub has confirmed meanwhile that the agent's location exists.
func (r *Reconciler) succeeded(ctx context.Context, t *turn, m *ownership.Meta, successor ownership.Owner) (decide.Observed, error) {
	assured := false
	if err := r.Store.Write(ctx, func(x *store.Tx) error {
		if assured = r.State.Assures(); !assured { // which it was not when the object was read
			x.Target.SetSuccessor(successor)
		}
		return nil
	}); err != nil {
		return decide.Observed{}, err
	}
	if assured {
		return r.readObserved(ctx, t)
	}
	r.Log.Error("another location has taken over what this one has at the target, and no hub confirms that this one exists: nothing is changed any more", "location", successor)
	r.Gate.SetHalt(r.Store.Halt)
	o := *decide.ObservedOf(m, successor)
	o.Existence, o.Owned = decide.Foreign, true
	return o, nil
}
