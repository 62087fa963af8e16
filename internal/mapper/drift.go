package mapper

import (
	"context"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/fields"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

// note records the object at the target as it is.
func (t *turn) note(f facts, d decision) outcome {
	source := *t.want().Object()
	stands := source
	if stands.Log = f.seen.log; f.seen.presence == blind {
		stands.Log = t.record.Source.Log
	}
	rec := &store.Record{
		Space: t.object().Space, Source: stands, UID: d.uid, As: t.view.as, Fields: f.seen.fields,
		Version: t.view.at.Version, Kind: t.view.kind,
	}
	o := outcome{decision: applied(source), record: rec, changed: true}
	if (facts{record: rec}).stale(source) {
		o.retry = 1
	}
	if f.seen != t.view.seen {
		o.seen = &f.seen
	}
	return o
}

// inspect finds out which fields of an object are no longer as we left them, and
// reports them. It changes nothing: the API server is asked what an apply would do.
func (r *reconciler) inspect(ctx context.Context, t *turn, f facts, d decision) (outcome, error) {
	there, err := r.target.GetAll(ctx, t.view.at, t.id)
	if target.MissingObject(err, t.id) || err == nil && there.Metadata.UID != d.uid {
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
	then, err := r.target.TryApply(ctx, t.view.at, t.id, t.view.as.Manager(), body)
	if err != nil {
		return outcome{}, err
	}
	lost, err := fields.Lost(&then, &now, t.view.as)
	if err != nil {
		return outcome{}, err
	}
	f.seen.fields, f.seen.log = now.Fields(t.view.as), now.Log()
	o := t.note(f, d)
	if f.unsaid(o.record.Source) { // and can be said when there is no drift
		o.record.Source.Policy.Orphan, o.retry = t.record.Source.Policy.Orphan, 1
	}
	if len(lost) == 0 && f.seen.unmarked { // they are those of a location that this one was
		return r.mark(ctx, t, decision{uid: d.uid, left: t.record != nil})
	}
	if len(lost) == 0 {
		return r.compared(t, o, body, there), nil // another has said the same
	}
	if t.record != nil {
		rec := *t.record
		rec.As = t.view.as
		o.record, o.changed = &rec, f.former && !f.seen.unmarked
	} else {
		o.record.Fields = ^o.record.Fields // what we left there is not known, but it was not this
	}
	o.decision = decision{state: wire.Failed, reason: v1alpha1.ReasonDrifted, message: driftMessage(lost)}
	if f.seen.unmarked {
		o.retry = foreignRetry // the watch does not show it
	}
	return o, nil
}

// inspected is what an apply would apply to the object that m was read from.
func (r *reconciler) inspected(ctx context.Context, t *turn, m *marks.Meta) ([]byte, error) {
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
	of := *t.want().Object()
	of.Log = m.Log() // which is no drift, whatever it says
	if t.record != nil {
		of.Policy.Orphan = t.record.Source.Policy.Orphan // whose mark nobody has changed
	}
	return r.writer.dressed(t, object, &of, m.UID)
}

func driftMessage(lost []string) string {
	return wire.Brief("changed at the location, and left so until the object in the space changes: " + fields.Listing(lost))
}
