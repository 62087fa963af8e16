package agentapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// session streams the desired objects to one agent.
type session struct {
	config    *Config
	locations *locations
	reports   *reportStore
	pending   *inspections

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
	n := s.content.shard.Total()
	all = append(all, table.Condition{
		Key: location, End: errContentChanged,
		IsMet: func(row *table.Row) bool { return row == nil || presence.ShardsOf(row) == n },
	})
	if access := s.config.StreamConditions; access != nil {
		all = append(all, table.WithEnd(access(ctx), errTokenReplaced)...)
	}
	return all
}

func (s *session) run(ctx context.Context, marker string, after int64) error {
	rows, rev := s.config.Table.Members(s.content.location)
	continuous := s.config.LogIdentity.Continuous(marker, after)
	uid, settings, err := s.locations.settings(s.content.location)
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
	row, _ := s.config.Table.Get(s.content.location.Key())
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
	s.marker, revision = s.config.LogIdentity.Position(rev)
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
	s.sub, err = s.config.Table.Subscribe(after, s.conditions(ctx, rev), table.LocationTopic(l), table.KeyTopic(l.Key()), table.KeyTopic(key.Dropped(l)))
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
			if !s.pending.isPending(q.ID) {
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
	if s.config.Due == nil {
		return false, nil
	}
	due, err := s.config.Due(ctx)
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
				s.reports.recordLetGo(s.content.location, f.Del.Key)
			}
			s.config.LogIdentity.Deliver(f.Put, step.Rev, s.marker)
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
	name, revision := s.config.LogIdentity.Position(upTo)
	err = s.out.send(wire.Frame{Mark: &wire.Mark{Revision: revision, Root: s.root, Count: s.count, Marker: name}})
	if err == nil && oldest > 0 {
		s.config.Watch.Delivered(oldest)
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
	_, settings, err := s.locations.settings(s.content.location)
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
	if row, _ := s.config.Table.Get(key.Dropped(s.content.location)); Dropping(row) {
		settings.Dropped = s.settings.Dropped // more removals of reports follow
	}
	settings = s.content.adapt(settings)
	if settings.Equal(s.settings) {
		return nil
	}
	s.settings = settings
	return s.out.send(wire.Frame{Settings: &settings})
}

// heartbeatSeconds returns the interval for the settings of the agent.
func (s *session) heartbeatSeconds() int { return max(1, int(s.heartbeat.Seconds())) }

// announce sends the URLs of the hub to an agent that requests them, unless it has the same ones.
func (s *session) announce() error {
	if s.known == "" || s.config.Endpoints == nil {
		return nil
	}
	endpoints := s.config.Endpoints(s.content.location)
	digest := endpoints.Digest()
	if digest == s.known {
		return nil
	}
	s.known = digest
	return s.out.send(wire.Frame{Endpoints: &endpoints})
}
