package agentapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// session is one agent's desired stream.
type session struct {
	server  *Server
	content content
	sub     *table.Subscription
	out     *frameWriter
	// root and count describe the content at revision at. Changes up to at are sent
	// without adding them again.
	root  wire.Sum
	count int
	at    int64
	// marker is that of the hello.
	marker string
	// settings are the last ones sent. poke says that they may have changed by something
	// other than the Location in the log.
	settings wire.Settings
	poke     <-chan struct{}
	// looks has what the agent is to be asked; nil: nothing.
	looks <-chan wire.Look
	// heartbeat is the interval of pings. known is the digest of the hub's endpoints that
	// the agent has; empty: it does not ask for them.
	heartbeat time.Duration
	known     string
	// renews says that the agent was asked to renew its credential.
	renews bool
}

// serveDesired streams to an agent what is desired at its location, until the agent
// disconnects, a premise fails, a newer session takes over, or the hub stops.
func (a *Server) serveDesired(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	after, err := revisionParam(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	heartbeat, err := a.heartbeatFor(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	of := key.Session{Location: l, Shard: shard}
	if err := a.beginsSession(of); err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.Serve(r.Context(), func() { a.serveSession(w, r, of, after, heartbeat) })
}

// serveSession holds a session that resumes after a revision.
func (a *Server) serveSession(w http.ResponseWriter, r *http.Request, of key.Session, after int64, heartbeat time.Duration) {
	can := abilitiesOf(r)
	lacks := ""
	if _, settings, err := a.Settings(of.Location); err == nil {
		lacks = can.lack(settings)
	}
	mine := a.sessions.start(r.Context(), of, wire.Capable(r.Header, wire.Looks), lacks, !can.sees)
	defer a.sessions.end(mine)

	s := &session{
		server: a, content: content{location: of.Location, shard: of.Shard, renderer: a.config.Renderer, can: can},
		out: newSessionWriter(w, a.config.Watch.Sent), poke: mine.poke, looks: mine.looks, heartbeat: heartbeat, known: r.URL.Query().Get("endpoints"),
	}
	defer s.out.end()
	bye := wire.Bye{Reason: wire.ByeShutdown}
	err := s.run(mine.ctx, r.URL.Query().Get("marker"), after) //nolint:contextcheck // made from the request's, so that a newer session can end it
	replaced, cut := a.sessions.ended(mine)
	switch {
	case errors.Is(err, table.ErrExpired), errors.Is(err, errContentChanged):
		bye.Reason = wire.ByeExpired
	case errors.Is(err, errTokenReplaced):
		bye.Reason = wire.ByeRevoked
	case errors.Is(err, errLocationRemoved):
		bye.Reason = wire.ByeRemoved
	case replaced:
		bye.Reason = wire.ByeReplaced
	case cut:
		bye.Message = "the hub's log does not answer"
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		bye = wire.Bye{Reason: wire.ByeExpired, Message: "the credential has expired"}
	case r.Context().Err() != nil:
		a.config.Watch.Ended("")
		return
	}
	a.config.Watch.Ended(bye.Reason)
	// The agent may be gone, which ends the session just as well.
	_ = s.out.send(wire.Frame{Bye: &bye})
	a.config.Logger.Info("session ended", "location", of.Location, "reason", bye.Reason, "error", err)
}

// How a session ends when a premise fails.
var (
	errLocationRemoved = errors.New("the location was removed")
	errContentChanged  = errors.New("a purge of the location was begun or called off, or another number of agents is to share it")
	errTokenReplaced   = errors.New("the agent's credential is no longer valid")
)

// premises are what a session rests on that read its Location at a revision. A location
// that is removed has nothing assigned, but its cluster keeps what it runs: the agent
// must not be told of deletions.
func (s *session) premises(ctx context.Context, at int64) []table.Condition {
	location, purged := s.content.location.Key(), s.content.purged
	all := []table.Condition{table.ObjectExists(location, at, errLocationRemoved), {
		Key: location, End: errContentChanged,
		IsMet: func(row *table.Row) bool { return row == nil || isPurged(row) == purged },
	}}
	all = append(all, keepsShards(s.content.location, s.content.shard.Of()))
	if let := s.server.config.Premises; let != nil {
		all = append(all, table.WithEnd(let(ctx), errTokenReplaced)...)
	}
	return all
}

func (s *session) run(ctx context.Context, marker string, after int64) error {
	rows, rev := s.server.config.Table.Members(s.content.location)
	continuous := s.server.config.Lineage.Continuous(marker, after)
	uid, settings, err := s.server.Settings(s.content.location)
	if err != nil {
		return errLocationRemoved
	}
	settings.HeartbeatSeconds = s.heartbeatSeconds()
	settings = s.content.asked(settings)
	s.settings = settings
	s.content.set(settings)
	s.root, s.count = s.content.total(rows)
	s.at = rev
	row, _ := s.server.config.Table.Get(s.content.location.Key())
	resumed := row != nil && after >= row.CreateRev && continuous && !settings.Purge
	if resumed {
		resumed = s.subscribe(ctx, after, rev) == nil
	}
	if !resumed {
		if err := s.subscribe(ctx, rev, rev); err != nil {
			return err
		}
	}
	defer s.sub.Close()

	var told int64
	s.marker, told = s.server.config.Lineage.At(rev)
	if err := s.out.send(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: s.marker, Revision: told, Root: s.root, Count: s.count,
		Continuous: continuous, Resumed: resumed, Settings: settings,
	}}); err != nil {
		return err
	}
	if err := s.announce(); err != nil {
		return err
	}
	return s.follow(ctx, resumed)
}

// subscribe subscribes to the changes of the content and of the Location after a
// revision. at is the revision for which the session's premises were read.
func (s *session) subscribe(ctx context.Context, after, at int64) (err error) {
	l := s.content.location
	s.sub, err = s.server.config.Table.Subscribe(after, s.premises(ctx, at), table.LocationTopic(l), table.KeyTopic(l.Key()), table.KeyTopic(key.Dropped(l)))
	return err
}

// follow sends changes until the context ends. mark says that the agent waits for a mark
// even if nothing changes.
func (s *session) follow(ctx context.Context, mark bool) error {
	ping := time.NewTicker(s.heartbeat)
	defer ping.Stop()
	for {
		select {
		case <-s.sub.Wake():
			if err := s.poll(&mark); err != nil {
				return err
			}
		case <-s.poke:
			if _, err := s.due(ctx); err != nil {
				return err
			}
			if err := s.locationChanged(); err != nil {
				return err
			}
		case q := <-s.looks:
			if !s.server.looks.asks(q.ID) {
				continue
			}
			if err := s.out.send(wire.Frame{Look: &q}); err != nil {
				return err
			}
		case <-ping.C:
			if err := s.ping(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// due says whether the agent is to renew its credential. It fails if that is good no more.
func (s *session) due(ctx context.Context) (bool, error) {
	if s.server.config.Due == nil {
		return false, nil
	}
	due, err := s.server.config.Due(ctx)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errTokenReplaced, err)
	}
	return due, nil
}

// ping sends a ping, which also asks the agent, once in a session, to renew its credential:
// so those for whom it is time together, since the authority was replaced, do not all do
// that at once.
func (s *session) ping(ctx context.Context) error {
	due, err := s.due(ctx)
	if err != nil {
		return err
	}
	ask := due && !s.renews
	s.renews = s.renews || due
	return s.out.send(wire.Frame{Ping: &wire.Ping{Renew: ask}})
}

// poll sends the available changes and, once the agent has all of them, a mark.
func (s *session) poll(mark *bool) error {
	steps, upTo, err := s.sub.Poll()
	if err != nil {
		return err
	}
	// What is asked comes before what follows of it for the content.
	location, drops := s.content.location.Key(), key.Dropped(s.content.location)
	own := func(ch table.Change) bool { k := ch.Row().Key; return k == location || k == drops }
	if slices.ContainsFunc(steps, func(step table.Step) bool { return slices.ContainsFunc(step.Changes, own) }) {
		if err := s.locationChanged(); err != nil {
			return err
		}
	}
	var oldest int64 // that has a frame
	for _, step := range steps {
		for _, ch := range step.Changes {
			if own(ch) {
				continue
			}
			f, before, after, ok := s.content.change(ch)
			if step.Rev > s.at {
				s.move(before, after)
			}
			if !ok {
				continue
			}
			if f.Del != nil {
				s.server.noteLetGo(s.content.location, f.Del.Key)
			}
			s.server.config.Lineage.Deliver(f.Put, step.Rev, s.marker)
			if err := s.out.add(f); err != nil {
				return err
			}
			oldest = cmp.Or(oldest, step.Rev)
			*mark = true
		}
	}
	if upTo < s.at { // more of the history before the hello's revision follows
		return s.out.flush()
	}
	s.at = upTo
	if !*mark {
		return nil
	}
	*mark = false
	name, told := s.server.config.Lineage.At(upTo)
	err = s.out.send(wire.Frame{Mark: &wire.Mark{Revision: told, Root: s.root, Count: s.count, Marker: name}})
	if err == nil && oldest > 0 {
		s.server.config.Watch.Delivered(oldest)
	}
	return err
}

func (s *session) move(before, after *entry) {
	s.root = s.root.Sub(before.sum()).Add(after.sum())
	if before != nil {
		s.count--
	}
	if after != nil {
		s.count++
	}
}

// locationChanged sends the settings if they have changed.
func (s *session) locationChanged() error {
	_, settings, err := s.server.Settings(s.content.location)
	// Asked after the settings: those may be of another location of the name, or of none.
	if ended := s.sub.Ended(); ended != nil {
		return ended
	}
	switch {
	case err != nil:
		return errLocationRemoved
	case settings.Purge != s.content.purged:
		return errContentChanged
	}
	if err := s.announce(); err != nil {
		return err
	}
	settings.HeartbeatSeconds = s.heartbeatSeconds()
	if row, _ := s.server.config.Table.Get(key.Dropped(s.content.location)); Dropping(row) {
		settings.Dropped = s.settings.Dropped // until no more follow
	}
	settings = s.content.asked(settings)
	if settings.Equal(s.settings) {
		return nil
	}
	s.settings = settings
	return s.out.send(wire.Frame{Settings: &settings})
}

func revisionParam(r *http.Request) (int64, error) {
	s := r.URL.Query().Get("after")
	if s == "" {
		return 0, nil
	}
	rev, err := strconv.ParseInt(s, 10, 64)
	if err != nil || rev < 0 {
		return 0, respond.BadRequest("after %q: want a revision", s)
	}
	return rev, nil
}
