package mapper

import (
	"context"
	"strconv"
	"sync"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/mapper/decide"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/mapper/target"
	"orrery.dev/orrery/internal/wire"
)

const (
	// refreshEvery is how far apart writes are of nothing but an object's pair.
	refreshEvery = 5 * time.Millisecond
)

// deliver takes note of the pair by which an entry arrived, before it is given
// another.
func (t *turn) deliver(w *store.Want, m *store.Meta) {
	if o := w.Object(); o != nil {
		t.delivered = append(t.delivered, o.Log)
	}
	w.Rebase(m)
}

// log is the pair to write with the object to follow. What a hub told that says none
// has that of the last mark, if all that is desired is known to be as of that.
func (t *turn) log() marks.Pair {
	if p := t.want().Object().Log; !p.IsZero() || !t.settled {
		return p
	}
	return t.mark
}

// source is the object to follow, with the pair to write.
func (t *turn) source() *store.Source {
	s := *t.want().Object()
	s.Log = t.log()
	return &s
}

// refresh writes the pair of what is desired at an object that is otherwise as it is
// to be, and nothing else: it is desired anew, or the log is another by acceptance.
func (r *reconciler) refresh(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	if !t.view.slotted {
		return outcome{Decision: decide.Decision{Retry: r.slots.next(time.Now())}, record: t.record, keep: true, slotted: true}, nil
	}
	fields, version := f.Seen.Fields, strconv.FormatUint(f.Seen.Revision, 10)
	if f.Seen.Presence != decide.Present || f.Seen.Revision == 0 {
		m, err := r.writer.getSame(ctx, t, d.UID)
		if err != nil {
			return outcome{}, err
		}
		fields, version = m.Fields(t.view.as), m.ResourceVersion
	}
	m, err := r.writer.patch(ctx, t, "refresh", marks.SetPair(d.UID, version, t.log()))
	if target.MissingObject(err, t.id) {
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
		Decision: decide.Decision{Retry: 1}, record: &rec, changed: true, keep: true, seen: decide.ObservedOf(&m, t.view.as),
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
	case o.State != wire.Failed && (o.State != wire.Orphaned || o.Reason != v1alpha1.ReasonInUse):
		return
	case seen.Presence != decide.Present || seen.Unmarked || seen.Terminating || seen.Revision == 0:
		return
	case rec != nil && rec.UID != seen.UID, rec == nil && r.prove(t, seen) != marks.Given:
		return
	case !t.settled || t.mark.IsZero() || !r.prover.Lacks(seen.Log, time.Now()):
		return
	}
	m, err := r.writer.patch(ctx, t, "refresh", marks.SetPair(seen.UID, strconv.FormatUint(seen.Revision, 10), t.mark))
	if err != nil {
		r.log.Debug("the place in the log is not written", "object", t.id.String(), "error", err)
		return
	}
	o.seen = decide.ObservedOf(&m, t.view.as)
	if rec == nil {
		return
	}
	now := *rec
	now.Source.Log, o.record, o.changed = t.mark, &now, true
	if seen.Fields == rec.Fields {
		now.Fields = o.seen.Fields
	}
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
