package presence

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// retry is the delay before the hub requests a lease again after a failure.
	retry = 500 * time.Millisecond
	// revokeWithin limits the time to revoke the lease when the hub stops.
	revokeWithin = 2 * time.Second
	// publishEvery is the interval at which a hub checks whether to publish again which history it
	// needs. It does so after one part in publishFraction of its window. That is more than the hubs write
	// by publishing, so they do not trigger each other.
	publishEvery    = time.Second
	publishFraction = 32
	publishLeast    = 64
)

// Config configures a Member.
type Config struct {
	Log   *etcd.Log
	Table *table.Table
	// Is is the published state of the hub except for Needs and Seen. Needs returns the oldest
	// revision that its readers resume from, and Window how many revisions it keeps for them.
	Is     Hub
	Needs  func() int64
	Window int
	// Alone reports that this hub need not publish what it needs while there is space, since it
	// compacts the log itself.
	Alone func() bool
	// TTL is the lease duration: a hub that does not renew its lease in time is considered dead.
	TTL time.Duration
	// Silent is called with true when the log has not responded, or the table was lost, for that
	// time, and with false when that is over. It may be nil.
	Silent func(bool)
	// Newer contains the hubs with newer schemas; nil if they are not needed.
	Newer  *Newer
	Logger *slog.Logger
}

// Member is this hub among the hubs on the log. It is safe for concurrent use.
type Member struct {
	config Config
	id     string

	mu    sync.Mutex
	lease *etcd.Lease
	// full reports that the log has no space for a lease.
	full       bool
	silent     bool
	answeredAt time.Time
	// changed is closed and replaced when any of these change.
	changed chan struct{}
}

// NewMember returns a Member, which has no lease until it runs.
func NewMember(config Config) *Member {
	return &Member{config: config, id: rand.Text(), changed: make(chan struct{})}
}

// ID returns the unique ID of this hub process.
func (m *Member) ID() string { return m.id }

// Lease returns the hub's lease; nil if it has none. full reports that it has none because the log
// has no space for it. changed is closed when the result changes.
func (m *Member) Lease() (lease *etcd.Lease, full bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease, m.full, m.changed
}

// Newer reports whether a hub with newer schemas runs, which is elected for all tasks instead of
// this one. changed is closed when the result changes.
func (m *Member) Newer() (lives bool, changed <-chan struct{}) {
	if m.config.Newer == nil {
		return false, nil
	}
	return m.config.Newer.Live()
}

// Silent reports whether the log has not responded, or the table was lost, for so long that other
// hubs consider this one dead.
func (m *Member) Silent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent
}

func (m *Member) set(lease *etcd.Lease, full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease == lease && m.full == full {
		return
	}
	m.lease, m.full = lease, full
	close(m.changed)
	m.changed = make(chan struct{})
}

// answers records a response of the log.
func (m *Member) answers() {
	m.mu.Lock()
	wasSilent := m.silent
	m.silent, m.answeredAt = false, time.Now()
	m.mu.Unlock()
	if wasSilent && m.config.Silent != nil {
		m.config.Silent(false)
	}
}

// unanswered records a missing response.
func (m *Member) unanswered() {
	m.mu.Lock()
	late := !m.answeredAt.IsZero() && time.Since(m.answeredAt) >= m.config.TTL
	m.mu.Unlock()
	if late {
		m.silence("the log has not responded for the duration of the hub's lease: sessions end, and other hubs take over")
	}
}

// silence records that other hubs consider this one dead.
func (m *Member) silence(why string) {
	m.mu.Lock()
	news := !m.silent
	m.silent = true
	m.mu.Unlock()
	if news {
		m.config.Logger.Error(why, "lease", m.config.TTL)
		if m.config.Silent != nil {
			m.config.Silent(true)
		}
	}
}

// Run keeps a lease until the context ends, and then revokes it. It must be called after the table
// is loaded.
func (m *Member) Run(ctx context.Context) error {
	if m.config.Log.Embedded() {
		if err := m.removeStale(ctx); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		lease, err := m.grant(ctx)
		if err != nil {
			m.set(nil, errors.Is(err, etcd.ErrFull))
			if errors.Is(err, etcd.ErrFull) {
				m.answers()
			} else {
				m.unanswered()
			}
			select {
			case <-time.After(retry):
			case <-ctx.Done():
			}
			continue
		}
		m.answers()
		if m.hold(ctx, lease) {
			continue
		}
		m.silence("the table was lost for the time of the hub's lease: sessions end, and others write")
		for m.config.Log.Continuity().Lost() && ctx.Err() == nil {
			select {
			case <-time.After(retry):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// follows returns true when the context ends, and false when the table is lost for so long that
// other hubs must take over: a hub without a table writes nothing. On an embedded log there are no
// other hubs.
func (m *Member) follows(ctx context.Context) bool {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	var since time.Time
	for {
		switch {
		case m.config.Log.Embedded() || !m.config.Log.Continuity().Lost():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= m.config.TTL:
			return false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true
		}
	}
}

func (m *Member) grant(ctx context.Context) (*etcd.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.TTL)
	defer cancel()
	return m.config.Log.Grant(ctx, m.config.TTL)
}

// hold keeps a lease until it or the context ends. It returns false if the table no longer follows
// the log.
func (m *Member) hold(ctx context.Context, lease *etcd.Lease) (follows bool) {
	keeping, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { m.publish(keeping, lease) })
	follows = true
	group.Go(func() {
		follows = m.follows(keeping)
		stop()
	})
	m.set(lease, false)
	err := lease.Keep(keeping, m.answers)
	m.set(nil, false)
	stop()
	group.Wait()
	m.unanswered()
	if ctx.Err() == nil {
		m.config.Logger.Warn("the hub's lease has ended, requesting another", "error", err)
	}
	// Keys under the lease should not wait for its end.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeWithin)
	defer cancel()
	if err := lease.Revoke(ending); err != nil {
		m.config.Logger.Debug("revoke the hub's lease: it expires later", "error", err)
	}
	return follows
}

// removeStale removes the keys that an earlier process left under its lease. On an embedded log no other
// process can be running.
func (m *Member) removeStale(ctx context.Context) error {
	var ops []etcd.Op
	state := m.config.Table.Snapshot()
	for _, class := range []key.Class{key.Hubs, key.Sessions, key.Elections} {
		state.Ascend(class.Prefix(), func(row *table.Row) bool {
			ops = append(ops, etcd.Op{Key: row.Key})
			return true
		})
	}
	if len(ops) == 0 {
		return nil
	}
	rev, err := m.config.Log.Write(ctx, ops)
	if err != nil {
		return fmt.Errorf("remove the keys of the previous process: %w", err)
	}
	return m.config.Table.WaitFor(ctx, rev)
}

// publish publishes the state of the hub under a lease, and again whenever the history that it needs
// is much newer than published.
func (m *Member) publish(ctx context.Context, lease *etcd.Lease) {
	published, first := m.config.Is, true
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for {
		if now := m.is(); first || m.needsPublishing(published, now) {
			value, err := json.Marshal(now)
			if err == nil {
				_, err = m.config.Log.Write(ctx, []etcd.Op{{Key: key.Hub(m.id), Value: value, Under: lease}})
			}
			if err == nil {
				published, first = now, false
			} else if ctx.Err() == nil {
				m.config.Logger.Debug("publish the history that the hub needs", "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Member) is() Hub {
	is := m.config.Is
	is.Seen, is.Needs = m.config.Table.Rev(), m.config.Needs()
	return is
}

// needsPublishing reports whether to publish again which history the hub needs. While history is to be
// compacted because of its size, all wait for the hub with the oldest state, also the leader. Then
// all writes count, except for those by which hubs publish their state, which would never end.
func (m *Member) needsPublishing(published, now Hub) bool {
	if m.config.Log.Capacity().IsTight() && now.Seen-published.Seen > int64(len(Hubs(m.config.Table.Snapshot()))) {
		return true
	}
	step := max(publishLeast, int64(m.config.Window/publishFraction))
	return !m.config.Alone() && now.Needs-published.Needs >= step
}
