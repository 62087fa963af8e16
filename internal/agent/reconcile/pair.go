package reconcile

import (
	"context"
	"strconv"
	"sync"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// refreshEvery is the least time between two writes of nothing but an object's pair.
const refreshEvery = 5 * time.Millisecond

// deliver notes the pair with which an entry arrived, before Rebase may replace it.
func (t *turn) deliver(w *store.Want, m *store.Meta) {
	if o := w.Object(); o != nil {
		t.delivered = append(t.delivered, o.Log)
	}
	w.Rebase(m)
}

// log is the pair to write with the desired object. An entry without one, as older hubs
// send it, gets that of the last wire mark, if the desired content is known to be as of
// that mark.
func (t *turn) log() ownership.Pair {
	if p := t.want().Object().Log; !p.IsZero() || !t.complete {
		return p
	}
	return t.mark
}

// source is the desired object, with the pair to write.
func (t *turn) source() *store.Source {
	s := *t.want().Object()
	s.Log = t.log()
	return &s
}

// refresh writes only the desired pair to an object that is otherwise as desired: its
// source was written again, or another log was accepted.
func (r *Reconciler) refresh(ctx context.Context, t *turn, f decide.Facts, d decide.Decision) (outcome, error) {
	if !t.view.Slotted {
		return outcome{Decision: decide.Decision{Retry: r.slots.next(time.Now())}, record: t.record, keep: true, slotted: true}, nil
	}
	fields, version := f.Seen.Fields, strconv.FormatUint(f.Seen.Revision, 10)
	if f.Seen.Existence != decide.Present || f.Seen.Revision == 0 {
		m, err := r.writer.getSame(ctx, t, d.UID)
		if err != nil {
			return outcome{}, err
		}
		fields, version = m.Fields(t.view.As), m.ResourceVersion
	}
	m, err := r.writer.patch(ctx, t, "refresh", ownership.SetPair(d.UID, version, t.log()))
	if kubeclient.MissingObject(err, t.id) {
		return outcome{}, errLook
	}
	if err != nil {
		return outcome{}, err
	}
	rec := *t.record
	rec.As, rec.Source.Log = t.view.As, t.log()
	if fields == rec.Fields { // otherwise it has drifted, and stays so
		rec.Fields = m.Fields(t.view.As)
	}
	return outcome{
		Decision: decide.Decision{Retry: 1}, record: &rec, changed: true, keep: true, seen: decide.ObservedOf(&m, t.view.As),
	}, nil
}

// writePair writes the pair of the last bookmark to an object that still has one of an
// earlier log, although the hub's log has been accepted since: the target refuses to
// change it, or others use it. Without that an agent that loses its store would need
// another acceptance. It is done only if the hub's log is known to lack the pair of the
// object. If the write fails, it is tried again at the object's next retry.
func (r *Reconciler) writePair(ctx context.Context, t *turn, o *outcome) {
	seen, rec := t.view.Seen, t.record
	switch {
	case o.changed || o.forget || o.letGo || o.seen != nil:
		return
	case o.State != wire.Failed && (o.State != wire.Orphaned || o.Reason != v1alpha1.ReasonInUse):
		return
	case seen.Existence != decide.Present || seen.Unmarked || seen.Terminating || seen.Revision == 0:
		return
	case rec != nil && rec.UID != seen.UID, rec == nil && r.prove(t, seen) != ownership.Given:
		return
	case !t.complete || t.mark.IsZero() || !r.Prover.Lacks(seen.Log, time.Now()):
		return
	}
	m, err := r.writer.patch(ctx, t, "refresh", ownership.SetPair(seen.UID, strconv.FormatUint(seen.Revision, 10), t.mark))
	if err != nil {
		r.Log.Debug("the place in the log is not written", "object", t.id.String(), "error", err)
		return
	}
	o.seen = decide.ObservedOf(&m, t.view.As)
	if rec == nil {
		return
	}
	now := *rec
	now.Source.Log, o.record, o.changed = t.mark, &now, true
	if seen.Fields == rec.Fields {
		now.Fields = o.seen.Fields
	}
}

// slots spreads the writes that refresh pairs: an acceptance causes one for each object,
// and other work must not wait for them.
type slots struct {
	mu   sync.Mutex
	last time.Time
}

// next takes the next slot, and returns how long to wait for it.
func (s *slots) next(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = s.last.Add(refreshEvery); s.last.Before(now) {
		s.last = now
	}
	return max(1, s.last.Sub(now))
}
