package reconcile

import (
	"context"
	"errors"
	"strings"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Admission at the target may set other values than were applied: policies and webhooks
// run after a server-side apply has been merged, and managed fields do not show it. So
// the answer of each apply is compared with the request. If they differ, the object
// counts as Applied with the reason Mutated, and is applied again from time to time, so
// that it becomes right once the policy has gone. It is not drift: nothing has changed
// since our apply.

// compared adds to the outcome of an apply the fields in which the answer differs from
// the request.
func (r *Reconciler) compared(t *turn, o outcome, sent []byte, answer *ownership.Answer) outcome {
	if o.record.Source.Policy.CreateOnly {
		return o
	}
	changed, err := fields.Mutated(answer, string(sent), t.view.As)
	if err != nil {
		r.Log.Warn("the answer of an apply cannot be compared", "object", t.object().Path(), "error", err)
		return o
	}
	if len(changed) == 0 {
		return o
	}
	var before *store.Mutation
	if rec := t.record; rec != nil && rec.UID == o.record.UID && rec.Source.Digest == o.record.Source.Digest {
		before = rec.Mutated
	}
	now := time.Now()
	m := r.insists.After(before, fields.Listing(changed), now)
	if before == nil || before.Fields != m.Fields {
		r.Log.Warn("admission at the location changes what is applied", "object", t.object().Path(), "fields", m.Fields)
	}
	retry := m.Due.Sub(now)
	if o.Retry > 0 {
		retry = min(retry, o.Retry)
	}
	o.record.Mutated, o.Decision = m, decide.MutatedBy(m, retry)
	return o
}

// mutatedBefore reports whether nothing is recorded, and the last report has the desired object
// as applied and changed by admission.
func (t *turn) mutatedBefore() bool {
	before, w := t.before[t.object().Space], t.want()
	if t.record != nil || before == nil || w == nil || w.Object() == nil {
		return false
	}
	o := w.Object()
	return before.Reason == v1alpha1.ReasonMutated && before.UID == o.UID && before.Digest == o.Digest
}

// regains records, after a loss of the store, an object that admission changed in an
// immutable field when it was created: it stays as it is.
func (r *Reconciler) regains(ctx context.Context, t *turn, d decide.Decision) outcome {
	m, err := r.writer.getSame(ctx, t, d.UID)
	if errors.Is(err, errLook) {
		return outcome{keep: true, failed: true, Decision: decide.Decision{Retry: refusedRetry}}
	}
	if err != nil {
		return r.refusals.outcome(t, err)
	}
	now, o := time.Now(), r.done(t, d, m)
	fields, _ := strings.CutPrefix(t.before[t.object().Space].Message, decide.SaysMutated)
	o.record.Source.Log = m.Log()
	o.record.Mutated = r.insists.After(nil, fields, now)
	o.Decision = decide.MutatedBy(o.record.Mutated, o.record.Mutated.Due.Sub(now))
	return o
}

// remains is the outcome of applying again an object that admission changed in an
// immutable field when it was created: it stays as it is. Recreating it would not help.
func (r *Reconciler) remains(t *turn) outcome {
	now, rec := time.Now(), *t.record
	rec.Mutated = r.insists.After(rec.Mutated, rec.Mutated.Fields, now)
	return outcome{Decision: decide.MutatedBy(rec.Mutated, rec.Mutated.Due.Sub(now)), record: &rec, changed: true}
}
