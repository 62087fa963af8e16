package hubclient

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

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxBatch and maxBatchBytes bound the frames in one transaction of the store.
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	// heartbeat is the interval of heartbeats before the hub has sent its settings.
	heartbeat = 30 * time.Second
	// silence is the number of heartbeats that a hub may miss.
	silence = 3
	// sessionRetry is the longest wait before the next session; replacedRetry is the
	// wait after another agent of this location has connected.
	sessionRetry  = time.Minute
	replacedRetry = 30 * time.Second
	// never is longer than an agent runs.
	never = 1 << 62 * time.Nanosecond
)

// Ends of a session that are not failures.
var (
	errWalked   = errors.New("the comparison has ended: connect again")
	errReplaced = errors.New("another agent of this location has connected")
	errBye      = errors.New("the hub ended the session")
)

// errSuperseded is the reason why no session is opened with a credential that was rejected before.
var errSuperseded = errors.New("another agent has joined the location: this one does not connect again without a new join token")

// Session keeps the desired objects in the store equal to the hub's.
type Session struct {
	Link
	follower Follower
	recall   recaller
	// frames counts stored frames, sessions counts opened sessions.
	frames, sessions prometheus.Counter
	pulse            pulse
}

// NewSession returns a session that notifies the follower of its events. The reporter loads the
// hub's reports into a new store.
func NewSession(l Link, f Follower, r *Reporter, frames, sessions prometheus.Counter) *Session {
	return &Session{Link: l, follower: f, recall: r.recall, frames: frames, sessions: sessions}
}

// Run opens one session after the other until ctx ends.
func (s *Session) Run(ctx context.Context) {
	var failures uint8
	walked := false
	refused := s.Store.Meta().Superseded
	for ctx.Err() == nil {
		renewed, shown := s.Client.lines.another(), s.Client.lines.shown()
		if shown != "" && shown == refused {
			s.State.failed(errSuperseded)
			s.pause(ctx, never, renewed) // also a hub that was restored from an older copy must not accept the credential again
			continue
		}
		advanced, err := s.once(ctx)
		s.State.ended(err)
		if ctx.Err() != nil {
			return
		}
		if supersedes(err) {
			s.Log.Error("another agent has joined the location, so this one does not connect again: give it a new join token, or remove it", "error", err)
			refused = shown
			s.follower.Superseded(shown)
			continue
		}
		if advanced || errors.Is(err, errAccepted) {
			failures, walked = 0, false
		}
		if errors.Is(err, errMoved) || errors.Is(err, errRenewed) {
			continue // neither is a failure
		}
		if errors.Is(err, errWalked) && !walked {
			walked = true // another comparison has to wait, unless a bookmark confirms the result of this one
			continue
		}
		wait := max(retry.Backoff(failures, retry.First, sessionRetry), asksToWait(err))
		failures = min(failures+1, retry.MaxFailures)
		if errors.Is(err, errReplaced) {
			wait = retry.Backoff(retry.MaxFailures, retry.First, replacedRetry)
		}
		level := slog.LevelInfo
		if _, untrusted := errors.AsType[*untrustedError](err); untrusted || locksOut(err) {
			level = slog.LevelError // an operator has to act
		}
		s.Log.Log(ctx, level, "the session with the hub ended", "error", err, "retry", wait)
		s.Client.drop()
		s.pause(ctx, wait, renewed)
	}
}

// pause waits for a time, or until there is another credential: the hub may have rejected the
// previous one.
func (s *Session) pause(ctx context.Context, wait time.Duration, renewed <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-renewed:
	case <-ctx.Done():
	}
}

// once opens one session and returns when it has ended. advanced reports whether a bookmark
// matched the content of the store.
func (s *Session) once(ctx context.Context) (advanced bool, err error) {
	ctx, release, err := s.Client.session(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := s.Store.Meta()
	e := s.Client.reach.current()
	query := url.Values{
		"after": {strconv.FormatInt(m.Revision, 10)}, "marker": {m.Marker}, "endpoints": {s.Client.reach.digest()},
	}
	if seconds := s.pulse.request(); seconds > 0 {
		query.Set("heartbeat", strconv.Itoa(seconds))
	}
	body, err := s.Client.do(ctx, http.MethodGet, route.Desired, query, http.NoBody)
	if err != nil {
		s.Client.reach.failed(e)
		return false, err
	}
	defer body.Close()
	st := &stream{Session: s, dec: wire.NewDecoder(body), dog: newWatchdog(cancel), endpoint: e, leave: func() { cancel(errMoved) }}
	defer st.dog.stop()
	err = st.run(ctx)
	if st.hello == nil {
		s.Client.reach.failed(e)
	}
	st.land(nil, true, true)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if st.hello != nil && s.pulse.ended(time.Since(st.dog.lastData), st.dog.beat, err) {
		s.Log.Info("quiet sessions end before the hub's heartbeat; the agent requests a shorter one", "heartbeat", s.pulse.requested)
	}
	return st.advanced, err
}

// stream is a response of the hub in frames, which are stored.
type stream struct {
	*Session
	dec   *wire.Decoder
	dog   *watchdog
	hello *wire.Hello
	in    store.Intake
	// endpoint is the endpoint of the session. leave ends the session, to change to another one.
	endpoint endpoint
	leave    func()
	// advanced reports whether a bookmark matched the content of the store.
	advanced bool
	// departed has, by path, the entries that are no longer desired since the last bookmark.
	departed map[string]store.Touched
}

// next reads a frame.
func (st *stream) next() (wire.Frame, error) {
	var f wire.Frame
	if err := st.dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a hub that ends a session sends a bye
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
		return errors.New("read frames: the first one is not a hello")
	}
	return st.welcome(ctx, *f.Hello)
}

// welcome determines whether the hub's log continues the one that the agent knows, and stores
// the hello.
func (st *stream) welcome(ctx context.Context, h wire.Hello) error {
	if h.UID == "" {
		return errors.New("the hello names no location")
	}
	m := st.Store.Meta()
	st.in.Proven, st.in.Marker = h.Continuous && (m.LocationUID == "" || m.LocationUID == h.UID), h.Marker
	if st.in.Proven && !m.Seen.IsZero() { // this log may lack the puts since the last bookmark
		answer, err := st.Client.proofs(ctx, h.Marker, []string{m.Seen.Marker()})
		if err != nil {
			return err
		}
		// A hub of an older version does not serve the request, and returns no marker.
		st.in.Proven = answer.Marker == "" || answer.Contains(m.Seen.Marker(), m.Seen.Revision)
	}
	if !st.in.Proven && accepts(h.Settings, h) {
		return st.accept(ctx, h)
	}
	if !st.in.Proven {
		st.Log.Warn("the hub's log does not continue the one before: new objects are created, changes and removals wait until it is accepted",
			"continuous", h.Continuous, "location", h.UID, "known", m.LocationUID)
	}
	st.State.greeted(m.LocationUID == "" || m.LocationUID == h.UID)
	if err := st.Store.Write(ctx, func(t *store.Tx) error {
		t.Hub.Welcome(h, st.in.Proven)
		return nil
	}); err != nil {
		return err
	}
	st.dog.every(h.Settings)
	st.hello = &h
	st.follower.Greeted(false)
	return nil
}

// run reads the stream until it ends.
func (st *stream) run(ctx context.Context) error {
	if err := st.greet(ctx); err != nil {
		return err
	}
	st.sessions.Inc()
	st.Client.reach.worked(st.endpoint)
	defer st.Client.reach.during(st.leave)()
	st.State.connected(st.in.Proven, st.hello.Marker, accepts(st.hello.Settings, *st.hello))
	st.follower.Opened(false)
	st.Log.Info("connected to the hub", "hub", st.endpoint.URL, "revision", st.hello.Revision, "resumed", st.hello.Resumed)
	m := st.Store.Meta()
	if m.Revision == 0 || m.Gained {
		// The store is new, or has more spaces than before: the hub's reports contain which Jobs and Pods have completed.
		if err := st.recall(ctx, st.dog.reset); err != nil {
			return err
		}
	}
	switch {
	case st.hello.Resumed && st.in.Proven && !m.Gained:
	case !st.in.Proven:
		// From an unproven log only new objects are stored, so the comparison does not advance
		// the store's revision, and this stream continues.
		if err := st.walk(ctx); err != nil {
			return err
		}
	case m.Gained || m.Root != st.hello.Root:
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
		st.known()
	}
	for {
		if err := st.batch(ctx); err != nil {
			return err
		}
		if st.in.Marked {
			st.known()
		}
		if st.in.Marked && st.in.Proven && !st.in.Agrees {
			if !st.in.Forward {
				return errors.New("the hub's revision decreased within a session")
			}
			st.Log.Warn("the desired objects in the store differ from the hub's; the agent compares all of them")
			if err := st.walk(ctx); err != nil {
				return err
			}
			return errWalked
		}
	}
}

// known records that the desired objects are known.
func (st *stream) known() {
	if st.State.marked() {
		st.follower.Opened(true)
	}
}

// adopt stores the hello's revision: the content of the store equals the hub's already.
func (st *stream) adopt(ctx context.Context) error {
	return st.take(ctx, []wire.Frame{{Mark: &wire.Mark{
		Revision: st.hello.Revision, Root: st.hello.Root, Count: st.hello.Count, Marker: st.hello.Marker,
	}}})
}

// batch reads the frames that have arrived, at least one and at most up to a bookmark, and
// stores them.
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
		switch {
		case f.Endpoints != nil:
			if err := st.Client.reach.announced(*f.Endpoints); err != nil {
				st.Log.Warn("the endpoints that the hub has announced cannot be used", "error", err)
			}
		case f.InspectRequest != nil:
			st.follower.InspectRequested(*f.InspectRequest)
		case f.Ping == nil:
			frames = append(frames, f)
		case f.Ping.Renew:
			st.Client.renew.Raise()
		}
		if f.Put != nil {
			size += len(f.Put.Object)
		}
		if f.Mark != nil || len(frames) >= maxBatch || size >= maxBatchBytes || st.dec.Buffered() == 0 {
			return st.take(ctx, frames)
		}
	}
}

// take stores frames and notifies the follower of the changed entries.
func (st *stream) take(ctx context.Context, frames []wire.Frame) error {
	st.in.Marked = false
	if len(frames) == 0 {
		return nil
	}
	arrivals := make([]store.Arrival, 0, len(frames))
	for _, f := range frames {
		a, err := store.Admit(f)
		if err != nil {
			// The next bookmark will not match, which starts a comparison; the other frames are stored.
			st.Log.Error("the hub sent a malformed frame", "error", err)
			continue
		}
		arrivals = append(arrivals, a)
	}
	var all []store.Touched
	var next store.Intake
	if err := st.Store.Write(ctx, func(t *store.Tx) (err error) {
		all, next, err = st.in.Apply(t, arrivals, time.Now())
		return err
	}); err != nil {
		return err
	}
	st.in = next
	st.advanced = st.advanced || next.Marked && (next.Agrees || !next.Proven)
	st.frames.Add(float64(len(frames)))
	for _, f := range frames {
		if f.Settings != nil {
			st.dog.every(*f.Settings)
		}
	}
	dels := slices.ContainsFunc(frames, func(f wire.Frame) bool { return f.Del != nil || f.Gone != nil })
	st.land(all, next.Marked || !dels, next.Marked)
	if st.hello == nil {
		return nil
	}
	accepted := accepts(st.Store.Meta().Settings, *st.hello)
	if accepted && !next.Proven {
		return st.accept(ctx, *st.hello)
	}
	if st.State.accept(accepted) {
		st.follower.Opened(false)
	}
	return nil
}

// land notifies the follower of changed entries. Entries that are no longer desired are held back
// until the next bookmark, so that the follower receives all of them together and can order
// their removals. If complete is set, no entry of all is held back; if ended is set, the follower
// also receives the entries that were held back.
func (st *stream) land(all []store.Touched, complete, ended bool) {
	var now []store.Touched
	for _, t := range all {
		path := t.Object.Path()
		delete(st.departed, path)
		if t.Want.Desired() || complete {
			now = append(now, t)
			continue
		}
		if st.departed == nil {
			st.departed = map[string]store.Touched{}
		}
		st.departed[path] = t
	}
	if ended {
		now = slices.AppendSeq(now, maps.Values(st.departed))
		st.departed = nil
	}
	st.follower.Landed(now)
}

func byeError(b *wire.Bye) error {
	if b.Reason == wire.ByeReplaced {
		return errReplaced
	}
	return fmt.Errorf("%w: %s %s", errBye, b.Reason, b.Message)
}

// watchdog cancels a stream on which no data arrives for too long.
type watchdog struct {
	timer *time.Timer
	beat  time.Duration
	// lastData is the time at which data last arrived.
	lastData time.Time
}

func newWatchdog(cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{beat: heartbeat, lastData: time.Now()}
	w.timer = time.AfterFunc(silence*w.beat, func() { cancel(errSilent) })
	return w
}

// every sets the interval of heartbeats from the settings.
func (w *watchdog) every(s wire.Settings) {
	if s.HeartbeatSeconds > 0 {
		w.beat = time.Duration(s.HeartbeatSeconds) * time.Second
	}
	w.reset()
}

func (w *watchdog) reset() {
	w.lastData = time.Now()
	w.timer.Reset(silence * w.beat)
}
func (w *watchdog) stop() { w.timer.Stop() }

// errAccepted ends a session in which the operator has accepted the hub's log.
var errAccepted = errors.New("the hub's log was accepted as the continuation of the one before: connect again")

// accepts reports whether an operator has accepted the log of a hello.
func accepts(s wire.Settings, h wire.Hello) bool { return s.Accept != "" && s.Accept == h.Marker }

// accept records the hub's log as the continuation of the previous one: from now on its
// marker is proof. The content of the store still differs from the hub's; the next session
// detects that by the content hash, and compares. This also accepts a location that was removed
// and added again under its name.
func (st *stream) accept(ctx context.Context, h wire.Hello) error {
	st.Log.Warn("the hub's log was accepted as the continuation of the one before", "marker", h.Marker, "revision", h.Revision)
	if err := st.Store.Write(ctx, func(t *store.Tx) error {
		t.Hub.Accept(h)
		return nil
	}); err != nil {
		return err
	}
	st.follower.Greeted(true)
	return errAccepted
}
