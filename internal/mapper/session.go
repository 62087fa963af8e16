package mapper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxBatch and maxBatchBytes bound the frames that go into the store at once.
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	// heartbeat is the time between two pings until the hub has named one.
	heartbeat = 30 * time.Second
	// silence is how many heartbeats a hub may miss.
	silence = 3
	// sessionRetry caps the wait before the next session; replacedRetry is the
	// wait after another agent of this location took over.
	sessionRetry  = time.Minute
	replacedRetry = 30 * time.Second
)

// Ends of a session that are no failure.
var (
	errWalked   = errors.New("walked: connect again")
	errReplaced = errors.New("another agent of this location has connected")
	errBye      = errors.New("the hub ended the session")
)

// session keeps the desired content equal to the hub's.
type session struct {
	store   *store
	hub     *hubClient
	log     *slog.Logger
	metrics *metrics
	// greeted is called for each hello, before any of its frames is applied;
	// landed with what frames touched, once that is in the store.
	greeted func(wire.Hello)
	landed  func([]touched)
	// recall loads the hub's reports of the location into a new store.
	recall func(ctx context.Context, heard func()) error
	// accepted is called when another log has been accepted.
	accepted func()
	// state is told how the session is.
	state *progress
}

// run holds one session after the other until ctx ends.
func (s *session) run(ctx context.Context) {
	var failures uint8
	walked := false
	for ctx.Err() == nil {
		advanced, err := s.once(ctx)
		s.state.ended(err)
		if ctx.Err() != nil {
			return
		}
		if advanced || errors.Is(err, errAccepted) {
			failures, walked = 0, false
		}
		if errors.Is(err, errWalked) && !walked {
			walked = true // another has to wait until a mark shows that this one was right
			continue
		}
		wait := max(retry.Backoff(failures, retry.First, sessionRetry), asksToWait(err))
		failures = min(failures+1, retry.MaxFailures)
		if errors.Is(err, errReplaced) {
			wait = retry.Backoff(retry.MaxFailures, retry.First, replacedRetry)
		}
		s.log.Info("the session with the hub ended", "error", err, "retry", wait)
		s.hub.drop()
		retry.Pause(ctx, wait)
	}
}

// once holds one session. advanced says that it came to a mark that held.
func (s *session) once(ctx context.Context) (advanced bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := s.store.meta.Load()
	body, err := s.hub.do(ctx, http.MethodGet, route.Desired, url.Values{
		"after": {strconv.FormatInt(m.Revision, 10)}, "marker": {m.Marker},
	}, http.NoBody)
	if err != nil {
		return false, err
	}
	defer body.Close()
	st := &stream{session: s, dec: wire.NewDecoder(body), dog: newWatchdog(cancel)}
	defer st.dog.stop()
	err = st.run(ctx)
	st.land(nil, true, true)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	return st.advanced, err
}

// stream is one answer of the hub that consists of frames.
type stream struct {
	*session
	dec   *wire.Decoder
	dog   *watchdog
	hello *wire.Hello
	in    intake
	// advanced says that a mark held: what was sent was taken over as it was meant.
	advanced bool
	// departed is what ceased to be desired since the last mark, by path.
	departed map[string]touched
}

// next reads a frame.
func (st *stream) next() (wire.Frame, error) {
	var f wire.Frame
	if err := st.dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a hub says bye
		}
		return f, fmt.Errorf("read frames: %w", err)
	}
	st.dog.reset()
	return f, nil
}

// greet reads the hello.
func (st *stream) greet(ctx context.Context) error {
	f, err := st.next()
	if err != nil {
		return err
	}
	if f.Hello == nil {
		return errors.New("read frames: the first one is no hello")
	}
	return st.welcome(ctx, *f.Hello)
}

// welcome finds out whether the hub that said hello continues what we know.
func (st *stream) welcome(ctx context.Context, h wire.Hello) error {
	if h.UID == "" {
		return errors.New("the hello names no location")
	}
	m := st.store.meta.Load()
	st.in.proven, st.in.marker = h.Continuous && (m.LocationUID == "" || m.LocationUID == h.UID), h.Marker
	if st.in.proven && !m.Seen.IsZero() { // after the last mark, and perhaps not in this log
		answer, err := st.hub.lineage(ctx, h.Marker, []string{m.Seen.Marker()})
		if err != nil {
			return err
		}
		// A hub that is older than the question names no marker.
		st.in.proven = answer.Marker == "" || spans{all: answer.Spans[m.Seen.Marker()]}.has(m.Seen.Revision)
	}
	if !st.in.proven && accepts(h.Settings, h) {
		return st.accept(ctx, h)
	}
	if !st.in.proven {
		st.log.Warn("the hub's log does not continue the one before: new objects are made, changes and removals wait until it is accepted",
			"continuous", h.Continuous, "location", h.UID, "known", m.LocationUID)
	}
	if err := st.store.write(ctx, func(t *tx) error {
		if t.meta.LocationUID == "" {
			t.meta.LocationUID = h.UID
		}
		if !st.in.proven || t.meta.ReportsMarker != h.Marker {
			// The hub has started anew, perhaps from a copy that lacks reports.
			t.meta.ReportsAgreed, t.meta.ReportsMarker = false, h.Marker
		}
		t.meta.hear(h.Settings, st.in.proven)
		return nil
	}); err != nil {
		return err
	}
	st.dog.every(h.Settings)
	st.hello = &h
	st.greeted(h)
	return nil
}

// run follows the stream until it ends.
func (st *stream) run(ctx context.Context) error {
	if err := st.greet(ctx); err != nil {
		return err
	}
	st.metrics.sessions.Inc()
	st.state.connected(st.in.proven, st.hello.Marker, accepts(st.hello.Settings, *st.hello))
	st.log.Info("connected to the hub", "hub", st.hub.join.Hub, "revision", st.hello.Revision, "resumed", st.hello.Resumed)
	m := st.store.meta.Load()
	if m.Revision == 0 {
		// A new store: what ran once at this location is in the hub's reports.
		if err := st.recall(ctx, st.dog.reset); err != nil {
			return err
		}
	}
	switch {
	case st.hello.Resumed && st.in.proven:
	case !st.in.proven:
		// Nothing of this log is taken over but what is new, so the stream has to go
		// on from before the walk.
		if err := st.walk(ctx); err != nil {
			return err
		}
	case m.Root != st.hello.Root:
		if err := st.walk(ctx); err != nil {
			return err
		}
		return errWalked
	default:
		if err := st.adopt(ctx); err != nil {
			return err
		}
	}
	if !st.hello.Resumed {
		st.state.marked()
	}
	for {
		if err := st.batch(ctx); err != nil {
			return err
		}
		if st.in.marked {
			st.state.marked()
		}
		if st.in.marked && st.in.proven && !st.in.agrees {
			if !st.in.forward {
				return errors.New("the hub's revision went back within a session")
			}
			st.log.Warn("our content is not what the hub says it is; comparing all of it")
			if err := st.walk(ctx); err != nil {
				return err
			}
			return errWalked
		}
	}
}

// adopt takes over the hello's revision: our content is the hub's as it is.
func (st *stream) adopt(ctx context.Context) error {
	return st.take(ctx, []wire.Frame{{Mark: &wire.Mark{
		Revision: st.hello.Revision, Root: st.hello.Root, Count: st.hello.Count, Marker: st.hello.Marker,
	}}})
}

// batch reads what has arrived, at least one frame and at most up to a mark, and
// puts it into the store.
func (st *stream) batch(ctx context.Context) error {
	var frames []wire.Frame
	for size := 0; ; {
		f, err := st.next()
		if err != nil {
			return errors.Join(err, st.take(ctx, frames))
		}
		if f.Bye != nil {
			return errors.Join(byeError(f.Bye), st.take(ctx, frames))
		}
		if f.Ping == nil {
			frames = append(frames, f)
		}
		if f.Put != nil {
			size += len(f.Put.Object)
		}
		if f.Mark != nil || len(frames) >= maxBatch || size >= maxBatchBytes || st.dec.Buffered() == 0 {
			return st.take(ctx, frames)
		}
	}
}

// take puts frames into the store and tells what they touched.
func (st *stream) take(ctx context.Context, frames []wire.Frame) error {
	st.in.marked = false
	if len(frames) == 0 {
		return nil
	}
	arrivals := make([]arrival, 0, len(frames))
	for _, f := range frames {
		a, err := admit(f)
		if err != nil {
			// The next mark shows that something is missing; all else goes on.
			st.log.Error("the hub sent a frame that makes no sense", "error", err)
			continue
		}
		arrivals = append(arrivals, a)
	}
	var all []touched
	var next intake
	if err := st.store.write(ctx, func(t *tx) (err error) {
		all, next, err = st.in.apply(t, arrivals, time.Now())
		return err
	}); err != nil {
		return err
	}
	st.in = next
	st.advanced = st.advanced || next.marked && (next.agrees || !next.proven)
	st.metrics.frames.Add(float64(len(frames)))
	for _, f := range frames {
		if f.Settings != nil {
			st.dog.every(*f.Settings)
		}
	}
	dels := slices.ContainsFunc(frames, func(f wire.Frame) bool { return f.Del != nil })
	st.land(all, next.marked || !dels, next.marked)
	if st.hello == nil {
		return nil
	}
	accepted := accepts(st.store.meta.Load().Settings, *st.hello)
	if accepted && !next.proven {
		return st.accept(ctx, *st.hello)
	}
	st.state.accept(accepted)
	return nil
}

// land tells what frames touched. What ceases to be desired is told with the mark
// that follows: only then is it known what else leaves with it. complete says that
// all of this is known, ended that all before it is, too.
func (st *stream) land(all []touched, complete, ended bool) {
	var now []touched
	for _, t := range all {
		path := t.object.Path()
		delete(st.departed, path)
		if t.want != nil || complete {
			now = append(now, t)
			continue
		}
		if st.departed == nil {
			st.departed = map[string]touched{}
		}
		st.departed[path] = t
	}
	if ended {
		now = slices.AppendSeq(now, maps.Values(st.departed))
		st.departed = nil
	}
	st.landed(now)
}

func byeError(b *wire.Bye) error {
	if b.Reason == wire.ByeReplaced {
		return errReplaced
	}
	return fmt.Errorf("%w: %s %s", errBye, b.Reason, b.Message)
}

// watchdog ends a stream on which nothing arrives for too long.
type watchdog struct {
	timer *time.Timer
	wait  time.Duration
}

func newWatchdog(cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{wait: silence * heartbeat}
	w.timer = time.AfterFunc(w.wait, func() { cancel(errors.New("nothing heard from the hub for too long")) })
	return w
}

// every takes the time between two pings from the settings.
func (w *watchdog) every(s wire.Settings) {
	if s.HeartbeatSeconds > 0 {
		w.wait = silence * time.Duration(s.HeartbeatSeconds) * time.Second
	}
	w.reset()
}

func (w *watchdog) reset() { w.timer.Reset(w.wait) }
func (w *watchdog) stop()  { w.timer.Stop() }
