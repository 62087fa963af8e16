package mapper

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strings"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/fields"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

// Admission at the target may set other values than were applied: a policy or a
// webhook runs after a server-side apply has been merged, and who owns the fields
// does not tell. So the answer of each apply is compared with what was sent. Where
// they differ the object is applied as far as it can be, which is said, and is
// applied again from time to time, so that it becomes right when the policy has
// gone. It is not drift: nothing has changed since our apply.

const (
	// firstMutatedRetry is how long it takes until what admission changes is
	// applied again, the first time; mostMutatedRetry is how long at most.
	firstMutatedRetry = 10 * time.Second
	mostMutatedRetry  = 10 * time.Minute
)

// insistence says when to apply again what admission changes.
type insistence struct {
	first time.Duration
	// started is when this agent did. What came due before that is spread over
	// the time that it would wait for, so that it does not come all at once.
	started time.Time
}

// after is the mutation of an apply at a time, given the one before of the same object.
func (i insistence) after(before *store.Mutation, fields string, now time.Time) *store.Mutation {
	m := &store.Mutation{Fields: fields}
	if before != nil {
		m.Tries = min(before.Tries+1, retry.MaxFailures)
	}
	m.Due = now.Add(retry.Backoff(m.Tries, i.first, mostMutatedRetry)).UTC().Truncate(time.Millisecond)
	return m
}

// wait is how long it takes until an object is applied again; nothing if its clock
// was set back meanwhile.
func (i insistence) wait(m *store.Mutation, id string, now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	due := m.Due
	if due.Before(i.started) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id)) // a hash takes every write
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(i.started.UnixNano())))
		share := float64(h.Sum32()) / (1 << 32)
		due = i.started.Add(time.Duration(share * float64(retry.Backoff(m.Tries, i.first, mostMutatedRetry))))
	}
	if wait := due.Sub(now); wait <= mostMutatedRetry {
		return max(wait, 0)
	}
	return 0
}

// standing is what to say and do about an object at the target that is as our last
// apply left it.
func (f facts) standing(s store.Source, uid string) decision {
	d, m := applied(s), f.record.Mutated
	switch {
	case m == nil || s.Policy.CreateOnly:
		return d
	case f.again <= 0:
		return decision{do: doApply, uid: uid, again: true}
	}
	return mutatedBy(m, f.again)
}

// saysMutated is what a report says before it names the fields.
const saysMutated = "admission at the location sets other values than were applied; it is tried again: "

// mutatedBy is the decision about an object that admission at the target has changed.
func mutatedBy(m *store.Mutation, retry time.Duration) decision {
	return decision{
		state: wire.Applied, reason: v1alpha1.ReasonMutated, retry: retry,
		message: wire.Brief(saysMutated + m.Fields),
	}
}

// compared adds to the outcome of an apply what its answer has otherwise than what
// was sent.
func (r *reconciler) compared(t *turn, o outcome, sent []byte, answer *marks.Answer) outcome {
	if o.record.Source.Policy.CreateOnly {
		return o
	}
	changed, err := fields.Mutated(answer, string(sent), t.view.as)
	if err != nil {
		r.log.Warn("the answer of an apply cannot be compared", "object", t.object().Path(), "error", err)
		return o
	}
	if len(changed) == 0 {
		return o
	}
	var before *store.Mutation
	if was := t.record; was != nil && was.UID == o.record.UID && was.Source.Digest == o.record.Source.Digest {
		before = was.Mutated
	}
	now := time.Now()
	m := r.insists.after(before, fields.Listing(changed), now)
	if before == nil || before.Fields != m.Fields {
		r.log.Warn("admission at the location changes what is applied", "object", t.object().Path(), "fields", m.Fields)
	}
	retry := m.Due.Sub(now)
	if o.retry > 0 {
		retry = min(retry, o.retry)
	}
	o.record.Mutated, o.decision = m, mutatedBy(m, retry)
	return o
}

// mutatedBefore says that nothing is recorded, and that by the last report what is
// desired was applied, and changed by admission.
func (t *turn) mutatedBefore() bool {
	said, w := t.before[t.object().Space], t.want()
	if t.record != nil || said == nil || w == nil || w.Object() == nil {
		return false
	}
	o := w.Object()
	return said.Reason == v1alpha1.ReasonMutated && said.UID == o.UID && said.Digest == o.Digest
}

// regains records an object that can't be changed to what admission had changed when
// it was made, after a loss of the store: it remains as it was before.
func (r *reconciler) regains(ctx context.Context, t *turn, d decision) outcome {
	m, err := r.writer.getSame(ctx, t, d.uid)
	if errors.Is(err, errLook) {
		return outcome{keep: true, failed: true, decision: decision{retry: refusedRetry}}
	}
	if err != nil {
		return r.refusals.of(t, err)
	}
	now, o := time.Now(), r.done(t, d, m)
	fields, _ := strings.CutPrefix(t.before[t.object().Space].Message, saysMutated)
	o.record.Source.Log = m.Log()
	o.record.Mutated = r.insists.after(nil, fields, now)
	o.decision = mutatedBy(o.record.Mutated, o.record.Mutated.Due.Sub(now))
	return o
}

// remains is the outcome of applying again what admission had changed when it was
// made, and what can't be changed since: it remains as it is. Recreating it would
// change nothing, as often as it were done.
func (r *reconciler) remains(t *turn) outcome {
	now, rec := time.Now(), *t.record
	rec.Mutated = r.insists.after(rec.Mutated, rec.Mutated.Fields, now)
	return outcome{decision: mutatedBy(rec.Mutated, rec.Mutated.Due.Sub(now)), record: &rec, changed: true}
}
