package reconcile

import (
	"context"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// apply applies the desired object with our marks, in one request. Released values are
// handed over before that, or after the object was created.
func (r *Reconciler) apply(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	object, err := r.writer.rendering(t)
	if err != nil {
		return outcome{}, err
	}
	if t.homeless, err = r.namespaces.need(ctx, t); err != nil {
		return outcome{}, err
	}
	rest, fresh := object, d.UID == ""
	if !fresh && t.releases(f) {
		if rest, fresh, err = r.writer.withoutReleased(ctx, t, object, d.UID); err != nil {
			return outcome{}, err
		}
	}
	body, err := r.writer.bodyOf(t, rest, t.source(), d.UID)
	if err != nil {
		return outcome{}, err
	}
	answer, removed, err := r.writer.put(ctx, t, d, object, body)
	m := answer.Metadata
	p := t.want().Object().Policy
	if err == nil && d.UID != "" && (m.Orphan() && !p.Orphan || m.Account() != p.ServiceAccount) {
		m, err = r.writer.putMarks(ctx, t, body) // another field manager of ours has set the mark
	}
	if err != nil {
		return outcome{}, err
	}
	if len(removed) > 0 {
		r.Log.Info("applied an object without the defaults of its former values", "object", t.object().Path(), "fields", removed)
	}
	if d.Drift {
		r.Repairs.Inc()
		if t.view.Contested > 0 {
			r.Contested.Inc()
		}
		r.Log.Info("repaired drift", "object", t.object().Path())
	}
	if fresh && p.Release != "" && !p.CreateOnly { // CreateOnly objects are not applied again
		return r.afterMaking(ctx, t, d, object, answer)
	}
	return r.compared(t, r.done(t, d, m), body, answer), nil
}

// mark gives an object our marks, by which it is observed, and changes nothing else of it.
func (r *Reconciler) mark(ctx context.Context, t *turn, d decide.Decision) (outcome, error) {
	body, err := r.writer.body(t, d.UID)
	if err != nil {
		return outcome{}, err
	}
	m, err := r.writer.putMarks(ctx, t, body)
	if err != nil {
		return outcome{}, err
	}
	if d.Left {
		rec := *t.record
		source := t.source()
		rec.As, rec.Source.Log = t.view.As, source.Log
		rec.Source.Policy.Orphan, rec.Source.Policy.ServiceAccount = source.Policy.Orphan, source.Policy.ServiceAccount
		return outcome{Decision: decide.Decision{Retry: 1}, record: &rec, changed: true, keep: true, seen: decide.ObservedOf(&m, t.view.As)}, nil
	}
	return r.done(t, d, m), nil
}

// done is the outcome of a write after which the object at the target is m.
func (r *Reconciler) done(t *turn, d decide.Decision, m ownership.Meta) outcome {
	if d.Adopt {
		r.Log.Info("adopted an object that Orrery did not make", "object", t.object().Path())
	}
	source := *t.source()
	rec := &store.Record{
		Space: t.object().Space, Moved: t.moved(), Source: source, UID: m.UID, As: t.view.As, Generation: m.Generation, Fields: m.Fields(t.view.As),
		Version: t.view.Place.Version, Kind: t.view.Kind,
	}
	return outcome{
		Decision: decide.Applied(source), record: rec, changed: true, drifted: d.Drift,
		seen: decide.ObservedOf(&m, t.view.As),
	}
}

// qualified returns the outcome with the reason Contested for an applied object that another writer
// keeps changing, until it was unchanged for a while, or Unobserved if the agent does not see drift.
func (t concluded) qualified() outcome {
	o := t.outcome
	switch {
	case o.keep || o.State != wire.Applied || o.Reason != "":
	case t.view.Contested > 0:
		o.Reason = v1alpha1.ReasonContested
		o.Message = "another writer at the location keeps changing it back; it is repaired less and less often; " +
			"if that writer is to have the values, release them by a Customizer (release)"
		o.Retry = t.view.Contested + 1
	case t.view.Seen.Existence == decide.Blind:
		o.Reason = v1alpha1.ReasonUnobserved
		o.Message = wire.Brief("a change at the location would not be seen: " + t.view.Cause)
	}
	return o
}

// readObserved reads what is at the target under the identity, and takes over an object that is
// ours by its record.
func (r *Reconciler) readObserved(ctx context.Context, t *turn) (decide.Observed, error) {
	m, err := r.Target.Get(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) {
		return decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}, nil
	}
	if err != nil {
		return decide.Observed{}, err
	}
	o := *decide.ObservedOf(&m, t.view.As)
	if _, ours := m.ProvesOurs(t.view.As, t.kind()); ours {
		return o, nil
	}
	owner := m.Successor(t.view.As, t.kind())
	if rec := t.record; owner == "" && rec != nil && rec.UID == m.UID && rec.As == t.view.As { // the agent has marked it before
		owner = m.Remarked(t.view.As, t.kind())
	}
	if owner != "" && !r.State.Assures() {
		return r.succeeded(ctx, t, &m, owner)
	}
	if m.ProvesAny(t.formers, t.kind()) != "" {
		o.Existence, o.Inherited = decide.Foreign, true
		return o, nil
	}
	if m.ProvesOthers(t.view.As, t.kind()) { // whatever it was before
		o.Existence, o.Owned = decide.Foreign, true
		return o, nil
	}
	impliedBy := ownership.Owner(m.Annotations[v1alpha1.ImpliedAnnotation])
	implied := t.id.Resource == key.Namespaces && (impliedBy == t.view.As || slices.Contains(t.formers, impliedBy))
	if implied || t.record != nil && t.record.UID == m.UID {
		if m, err = r.writer.takeOver(ctx, t, m); err != nil {
			return decide.Observed{}, err
		}
		o = *decide.ObservedOf(&m, t.view.As)
		o.Unmarked = true
		return o, nil
	}
	o.Existence, t.otherOwner = decide.Foreign, otherOwner(t, &m)
	o.Owned = m.Controlled() || ownership.AnotherLocation(m.Labels[v1alpha1.LocationLabel], t.view.As)
	return o, nil
}

// claim records an object that proves to be ours but is neither recorded nor desired, so
// that it is removed like any other that is not desired.
func (r *Reconciler) claim(ctx context.Context, t *turn) (outcome, error) {
	m, err := r.Target.Get(ctx, t.view.Place, t.id)
	if kubeclient.MissingObject(err, t.id) {
		return outcome{forget: true, seen: &decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	located, ours := m.ProvesOurs(t.view.As, t.kind())
	space := located.Space
	if !ours || m.UID != t.view.Seen.UID { // the object that was read is newer than the observed one
		now := decide.Observed{Existence: decide.Absent, Taken: !ours, Revision: m.Revision()}
		if ours {
			now = *decide.ObservedOf(&m, t.view.As)
		}
		return outcome{keep: true, record: t.record, seen: &now, Decision: decide.Decision{Retry: 1}}, nil
	}
	if alias, err := r.alias(t, &m); alias || err != nil {
		return outcome{forget: true, seen: &decide.Observed{Existence: decide.Absent, Revision: m.Revision()}}, err
	}
	orphan, waits := m.Orphan(), len(m.TakenFrom()) > 0 // a removal of objects of another location waits for a confirmation
	if before := t.before[space]; before != nil {
		if !before.Digest.IsZero() { // the report is of an object that was applied
			orphan = before.Orphan // the report has later changes of the policy, the mark need not
		}
		waits = waits || before.State == wire.Removing && before.Reason == v1alpha1.ReasonPruneGuard
	}
	orphan = orphan || t.yields(space)
	r.Log.Warn("found an object of ours that is not desired", "object", t.id.String(), "space", space)
	rec := markedRecord(t, &m)
	rec.Source.Policy.Orphan = orphan
	return outcome{
		record: rec, changed: true, claim: true, waits: waits, keep: true, Decision: decide.Decision{Retry: 1},
	}, nil
}

// alias reports whether the agent knows an object of ours, which is neither recorded nor desired,
// under another identity: the object was written as one of another group, or a recorded or
// desired object has its UID.
func (r *Reconciler) alias(t *turn, m *ownership.Meta) (is bool, err error) {
	if located, _ := m.ProvesOurs(t.view.As, t.kind()); !m.WrittenAs(t.view.As, t.id.Resource) && !t.remembers(located.Space, m) {
		return true, nil
	}
	others, is := r.Engine.Namesakes(t.id, m.UID)
	err = r.Store.View(func(x *store.Tx) error {
		for _, id := range others {
			rec, err := x.Records.Get(id)
			if err != nil {
				return err
			}
			is = is || rec != nil && rec.UID == m.UID
		}
		return nil
	})
	return is, err
}
