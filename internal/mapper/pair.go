package mapper

import (
	"context"
	"strconv"
	"sync"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

const (
	// refreshEvery is how far apart writes are of nothing but an object's pair.
	refreshEvery = 5 * time.Millisecond
)

// inherit keeps the pair of an entry that is still about the same object: what has
// been desired all the time since then is so in each log that goes back as far. What
// has come to be protected is so only in a log that says that, too. What is made and
// left alone is not written for what changes of its source.
func (s *source) inherit(old *want) {
	if old == nil {
		return
	}
	o := old.object()
	if o == nil || o.UID != s.UID || o.Policy.CreateOnly != s.Policy.CreateOnly {
		return
	}
	if (o.Digest == s.Digest || s.Policy.CreateOnly) && !protects(s.Policy, o.Policy) {
		s.Log, s.Epoch = o.Log, o.Epoch
	}
}

// protects says that by a policy something at the target is left alone, or left
// there, that was not by the one before.
func protects(p, before wire.Policy) bool {
	return p.CreateOnly && !before.CreateOnly || p.Orphan && !before.Orphan || p.ReportDrift && !before.ReportDrift ||
		before.Recreate && !p.Recreate || p.Release != "" && p.Release != before.Release
}

// rebase gives an entry from before the last acceptance the pair of that: its own is
// of a log that is not followed any more.
func (w *want) rebase(m *meta) {
	for _, s := range []*source{&w.Leaf, w.Kept} {
		if s != nil && s.Epoch < m.Epoch {
			s.Log, s.Epoch = m.Accepted, m.Epoch
		}
	}
}

// saw takes note of the place of a put.
func (m *meta) saw(p marks.Pair) {
	if p.Revision > m.Seen.Revision {
		m.Seen = p
	}
}

// deliver takes note of the pair by which an entry arrived, before it is given
// another.
func (t *turn) deliver(w *want, m *meta) {
	if o := w.object(); o != nil {
		t.delivered = append(t.delivered, o.Log)
	}
	w.rebase(m)
}

// log is the pair to write with the object to follow. What a hub told that says none
// has that of the last mark, if all that is desired is known to be as of that.
func (t *turn) log() marks.Pair {
	if p := t.want().object().Log; !p.IsZero() || !t.settled {
		return p
	}
	return t.mark
}

// source is the object to follow, with the pair to write.
func (t *turn) source() *source {
	s := *t.want().object()
	s.Log = t.log()
	return &s
}

// stale says that another pair stands at the target than that of what is desired.
func (f facts) stale(s source) bool {
	return f.record != nil && !s.Log.IsZero() && f.record.Source.Log != s.Log
}

// refresh writes the pair of what is desired at an object that is otherwise as it is
// to be, and nothing else: it is desired anew, or the log is another by acceptance.
func (r *reconciler) refresh(ctx context.Context, t *turn, f facts, d decision) (outcome, error) {
	if !t.view.slotted {
		return outcome{decision: decision{retry: r.slots.next(time.Now())}, record: t.record, keep: true, slotted: true}, nil
	}
	fields, version := f.seen.fields, strconv.FormatUint(f.seen.revision, 10)
	if f.seen.presence != present || f.seen.revision == 0 {
		m, err := r.getSame(ctx, t, d.uid)
		if err != nil {
			return outcome{}, err
		}
		fields, version = m.Fields(t.view.as), m.ResourceVersion
	}
	m, err := r.patch(ctx, t, "refresh", marks.SetPair(d.uid, version, t.log()))
	if missingObject(err, t.id) {
		return outcome{}, errLook
	}
	if err != nil {
		return outcome{}, err
	}
	rec := *t.record
	rec.As, rec.Source.Log = t.view.as, t.log()
	if fields == rec.Fields { // or else it has drifted, and still has
		rec.Fields = m.Fields(t.view.as)
	}
	return outcome{
		decision: decision{retry: 1}, record: &rec, changed: true, keep: true, seen: observedOf(&m, t.view.as),
	}, nil
}

// settle writes the last mark at an object that stays as a log before the accepted one has
// written it: the target refuses to have it otherwise, or others use it. Or else a store
// that is lost after that would wait for another acceptance. It is only done where the hub
// says that its log does not have the place that stands there; when it fails, it is tried
// again with what makes the object stay.
func (r *reconciler) settle(ctx context.Context, t *turn, o *outcome) {
	seen, rec := t.view.seen, t.record
	switch {
	case o.changed || o.forget || o.letGo || o.seen != nil:
		return
	case o.state != wire.Failed && (o.state != wire.Orphaned || o.reason != v1alpha1.ReasonInUse):
		return
	case seen.presence != present || seen.unmarked || seen.terminating || seen.revision == 0:
		return
	case rec != nil && rec.UID != seen.uid, rec == nil && r.prove(t, seen) != proofGiven:
		return
	case !t.settled || t.mark.IsZero() || !r.prover.lacks(seen.log, time.Now()):
		return
	}
	m, err := r.patch(ctx, t, "refresh", marks.SetPair(seen.uid, strconv.FormatUint(seen.revision, 10), t.mark))
	if err != nil {
		r.log.Debug("the place in the log is not written", "object", t.id.String(), "error", err)
		return
	}
	o.seen = observedOf(&m, t.view.as)
	if rec == nil {
		return
	}
	now := *rec
	now.Source.Log, o.record, o.changed = t.mark, &now, true
	if seen.fields == rec.Fields {
		now.Fields = o.seen.fields
	}
}

// pushWanted queues all that is desired: the log is another by acceptance, and the
// objects at the target do not say so.
func (e *engine) pushWanted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, it := range e.items {
		if it.wanted {
			e.queue.push(it)
		}
	}
	e.wake.Broadcast()
}

// slots are the times at which pairs are refreshed, one after the other: an
// acceptance makes one write of each object, which nobody is to wait for.
type slots struct {
	mu   sync.Mutex
	last time.Time
}

// next is how long to wait for the next one.
func (s *slots) next(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = s.last.Add(refreshEvery); s.last.Before(now) {
		s.last = now
	}
	return max(1, s.last.Sub(now))
}
