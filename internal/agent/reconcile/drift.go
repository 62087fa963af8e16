package reconcile

import (
	"context"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// recorded is the outcome that records the object at the target as it is.
func (t *turn) recorded(f decide.Facts, d decide.Decision) outcome {
	source := *t.want().Object()
	present := source
	if present.Log = f.Seen.Log; f.Seen.Existence == decide.Blind {
		present.Log = t.record.Source.Log
	}
	rec := &store.Record{
		Space: t.object().Space, Moved: t.moved(), Source: present, UID: d.UID, As: t.view.As, Fields: f.Seen.Fields,
		Version: t.view.Place.Version, Kind: t.view.Kind,
	}
	o := outcome{Decision: decide.Applied(source), record: rec, changed: true}
	if (decide.Facts{Record: rec}).PairChanged(source) {
		o.Retry = 1
	}
	if f.Seen != t.view.Seen {
		o.seen = &f.Seen
	}
	return o
}

// inspect finds out by a dry run which fields of an object are no longer as we left
// them, and reports them. It changes no field but our marks.
func (r *Reconciler) inspect(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	there, err := r.Target.GetAll(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) || err == nil && there.Metadata.UID != d.UID {
		return outcome{}, errLook
	}
	if err != nil {
		return outcome{}, err
	}
	now := there.Metadata
	body, err := r.inspected(ctx, t, &now)
	if err != nil {
		return outcome{}, err
	}
	then, err := r.Target.TryApply(ctx, t.view.Place, t.id, t.view.As.Manager(), body)
	if err != nil {
		return outcome{}, err
	}
	lost, err := fields.Lost(&then, &now, t.view.As)
	if err != nil {
		return outcome{}, err
	}
	f.Seen.Fields, f.Seen.Log = now.Fields(t.view.As), now.Log()
	o := t.recorded(f, d)
	o.drifted = f.Rewritten()            // its place in the log is written next, which counts as a repair
	if f.MarksChanged(o.record.Source) { // the marks are written when there is no drift
		former, now := t.record.Source.Policy, &o.record.Source.Policy
		now.Orphan, now.ServiceAccount, o.Retry = former.Orphan, former.ServiceAccount, 1
	}
	if len(lost) == 0 && f.Seen.Unmarked { // its marks are of an earlier location of the name
		return r.mark(ctx, t, decide.Decision{UID: d.UID, Left: t.record != nil})
	}
	if len(lost) == 0 {
		return r.compared(t, o, body, there), nil // another writer set the same values
	}
	if t.record != nil {
		rec := *t.record
		rec.As = t.view.As
		o.record, o.changed = &rec, f.Former && !f.Seen.Unmarked
	} else {
		o.record.Fields = ^o.record.Fields // a hash that differs: what we left is not known, but it was not this
	}
	o.Decision = decide.Decision{State: wire.Failed, Reason: v1alpha1.ReasonDrifted, Message: driftMessage(lost)}
	if f.Seen.Unmarked {
		o.Retry = decide.ForeignRetry // the watch does not show it
	}
	return o, nil
}

// inspected is the body that an apply would send for the object that m was read from.
func (r *Reconciler) inspected(ctx context.Context, t *turn, m *ownership.Meta) ([]byte, error) {
	object, err := r.writer.rendering(t)
	if err != nil {
		return nil, err
	}
	if t.want().Object().Policy.Release != "" {
		x, err := r.writer.lease(ctx, t, object, m)
		if err != nil {
			return nil, err
		}
		if object, err = x.Rest(object); err != nil {
			return nil, err
		}
	}
	source := *t.want().Object()
	source.Log = m.Log() // another pair is no drift
	if t.record != nil {
		former := t.record.Source.Policy // a policy that has changed since is no drift
		source.Policy.Orphan, source.Policy.ServiceAccount = former.Orphan, former.ServiceAccount
	}
	return r.writer.bodyOf(t, object, &source, m.UID)
}

func driftMessage(lost []string) string {
	return wire.Brief("changed at the location, and left so until the object in the space changes: " + fields.Listing(lost))
}
