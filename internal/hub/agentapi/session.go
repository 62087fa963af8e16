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

// session streams the desired objects to one agent.
type session struct {
	server  *Server
	content content
	sub     *table.Subscription
	out     *frameWriter
	// root and count are the content hash and size at revision rev. Changes up to rev are sent
	// without adding them again.
	root  wire.Sum
	count int
	rev   int64
	// marker is the one in the hello frame.
	marker string
	// settings are the last ones sent. notify receives if they may have changed by something
	// other than the Location in the log.
	settings wire.Settings
	notify   <-chan struct{}
	// inspections receives inspect requests for the agent; nil if it does not support them.
	inspections <-chan wire.InspectRequest
	// heartbeat is the interval of pings. known is the digest of the endpoints that the agent has;
	// empty if it does not request them.
	heartbeat time.Duration
	known     string
	// renews is set after a request to the agent to renew its credential.
	renews bool
}

// serveDesired streams the desired objects of a location to its agent. It ends when the agent
// disconnects, a stream condition fails, a newer session replaces it, or the hub stops.
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
	id := key.Session{Location: l, Shard: shard}
	if err := a.beginsSession(id); err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.Serve(r.Context(), func() { a.serveSession(w, r, id, after, heartbeat) })
}

// serveSession serves a session that resumes after a revision.
func (a *Server) serveSession(w http.ResponseWriter, r *http.Request, id key.Session, after int64, heartbeat time.Duration) {
	can := abilitiesOf(r)
	lacks := ""
	if _, settings, err := a.Settings(id.Location); err == nil {
		lacks = can.lack(settings)
	}
	mine := a.sessions.start(r.Context(), id, wire.Capable(r.Header, wire.Inspects), lacks, !can.upsyncs)
	defer a.sessions.end(mine)

	s := &session{
		server: a, content: content{location: id.Location, shard: id.Shard, renderer: a.config.Renderer, can: can},
		out: newSessionWriter(w, a.config.Watch.Sent), notify: mine.notify, inspections: mine.inspections, heartbeat: heartbeat, known: r.URL.Query().Get("endpoints"),
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
	// Sending fails if the agent has disconnected.
	_ = s.out.send(wire.Frame{Bye: &bye})
	a.config.Logger.Info("session ended", "location", id.Location, "reason", bye.Reason, "error", err)
}

// Errors that end a session whose stream condition fails.
var (
	errLocationRemoved = errors.New("the location was removed")
	errContentChanged  = errors.New("a purge of the location was begun or called off, or another number of agents is to share it")
	errTokenReplaced   = errors.New("the agent's credential is no longer valid")
)

// conditions returns the stream conditions of a session that has read its Location at a revision.
// Nothing is assigned to a removed location, but its cluster keeps running the objects, so the agent
// must not receive deletions.
func (s *session) conditions(ctx context.Context, rev int64) []table.Condition {
	location, purged := s.content.location.Key(), s.content.purged
	all := []table.Condition{table.ObjectExists(location, rev, errLocationRemoved), {
		Key: location, End: errContentChanged,
		IsMet: func(row *table.Row) bool { return row == nil || isPurged(row) == purged },
	}}
	all = append(all, keepsShards(s.content.location, s.content.shard.Total()))
	if access := s.server.config.StreamConditions; access != nil {
		all = append(all, table.WithEnd(access(ctx), errTokenReplaced)...)
	}
	return all
}

func (s *session) run(ctx context.Context, marker string, after int64) error {
	rows, rev := s.server.config.Table.Members(s.content.location)
	continuous := s.server.config.LogIdentity.Continuous(marker, after)
	uid, settings, err := s.server.Settings(s.content.location)
	if err != nil {
		return errLocationRemoved
	}
	settings.HeartbeatSeconds = s.heartbeatSeconds()
	settings = s.content.adapt(settings)
	s.settings = settings
	s.content.set(settings)
	if s.root, s.count, err = s.content.total(ctx, rows); err != nil {
		return err
	}
	s.rev = rev
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

	var revision int64
	s.marker, revision = s.server.config.LogIdentity.Position(rev)
	if err := s.out.send(wire.Frame{Hello: &wire.Hello{
		UID: uid, Marker: s.marker, Revision: revision, Root: s.root, Count: s.count,
		Continuous: continuous, Resumed: resumed, Settings: settings, KeepsAggregated: true,
	}}); err != nil {
		return err
	}
	if err := s.announce(); err != nil {
		return err
	}
	return s.follow(ctx, resumed)
}

// subscribe subscribes to the changes of the content and of the Location after a revision. rev is
// the revision of the stream conditions.
func (s *session) subscribe(ctx context.Context, after, rev int64) (err error) {
	l := s.content.location
	s.sub, err = s.server.config.Table.Subscribe(after, s.conditions(ctx, rev), table.LocationTopic(l), table.KeyTopic(l.Key()), table.KeyTopic(key.Dropped(l)))
	return err
}

// follow sends changes until the context ends. With mark, the agent waits for a Mark frame even if
// nothing changes.
func (s *session) follow(ctx context.Context, mark bool) error {
	ping := time.NewTicker(s.heartbeat)
	defer ping.Stop()
	for {
		select {
		case <-s.sub.Wake():
			if err := s.poll(ctx, &mark); err != nil {
				return err
			}
		case <-s.notify:
			if _, err := s.due(ctx); err != nil {
				return err
			}
			if err := s.locationChanged(); err != nil {
				return err
			}
		case q := <-s.inspections:
			if !s.server.inspections.isPending(q.ID) {
				continue
			}
			if err := s.out.send(wire.Frame{InspectRequest: &q}); err != nil {
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

// due reports whether the agent must renew its credential. It fails if that is no longer valid.
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

// ping sends a ping. Once in a session, it requests a renewal of the agent's credential. After a
// replacement of the authority, the intervals of pings thus spread the renewals of all agents.
func (s *session) ping(ctx context.Context) error {
	due, err := s.due(ctx)
	if err != nil {
		return err
	}
	renew := due && !s.renews
	s.renews = s.renews || due
	return s.out.send(wire.Frame{Ping: &wire.Ping{Renew: renew}})
}

// poll sends the available changes and, when the agent has all of them, a Mark frame. It fails if the context ends.
func (s *session) poll(ctx context.Context, mark *bool) error {
	steps, upTo, err := s.sub.Poll()
	if err != nil {
		return err
	}
	// Settings are sent before the changes of the content that follow from them.
	location, drops := s.content.location.Key(), key.Dropped(s.content.location)
	own := func(ch table.Change) bool { k := ch.Row().Key; return k == location || k == drops }
	if slices.ContainsFunc(steps, func(step table.Step) bool { return slices.ContainsFunc(step.Changes, own) }) {
		if err := s.locationChanged(); err != nil {
			return err
		}
	}
	var oldest int64 // the oldest revision that has a frame
	for _, step := range steps {
		for _, ch := range step.Changes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if own(ch) {
				continue
			}
			f, before, after, ok := s.content.change(ch)
			if step.Rev > s.rev {
				s.move(before, after)
			}
			if !ok {
				continue
			}
			if f.Del != nil {
				s.server.noteLetGo(s.content.location, f.Del.Key)
			}
			s.server.config.LogIdentity.Deliver(f.Put, step.Rev, s.marker)
			if err := s.out.add(f); err != nil {
				return err
			}
			oldest = cmp.Or(oldest, step.Rev)
			*mark = true
		}
	}
	if upTo < s.rev { // more changes before the revision of the hello frame follow
		return s.out.flush()
	}
	s.rev = upTo
	if !*mark {
		return nil
	}
	*mark = false
	name, revision := s.server.config.LogIdentity.Position(upTo)
	err = s.out.send(wire.Frame{Mark: &wire.Mark{Revision: revision, Root: s.root, Count: s.count, Marker: name}})
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
	// Checked after the settings, which may be those of another location of the name.
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
		settings.Dropped = s.settings.Dropped // more removals of reports follow
	}
	settings = s.content.adapt(settings)
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
