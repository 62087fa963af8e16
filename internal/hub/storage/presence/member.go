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
	// retry is how long a hub waits until it asks again for a lease that it did not get.
	retry = 500 * time.Millisecond
	// revokeWithin bounds how long a hub that stops takes to give its lease back.
	revokeWithin = 2 * time.Second
	// tellEvery is how often a hub looks whether what it needs of the log's history is to be
	// said again, and tellPart the part of its window (one in tellPart) that makes it so. It
	// is more than what hubs write by saying so, which ends by itself.
	tellEvery = time.Second
	tellPart  = 32
	tellLeast = 64
)

// Config is what a Member needs.
type Config struct {
	Log   *etcd.Log
	Table *table.Table
	// Is is what the hub says of itself but for Needs and Seen; Needs is the oldest revision
	// that its readers resume from, and Window how many revisions it keeps for them.
	Is     Hub
	Needs  func() int64
	Window int
	// Alone says that this hub need not tell what it needs while there is room, since it is
	// the one who asks.
	Alone func() bool
	// TTL is for how long the log takes the hub for living that it does not hear of.
	TTL time.Duration
	// Silent is called with true when the log has not answered for that time, or the table
	// was lost for it, and with false when that is over. Nil: nobody asks.
	Silent func(bool)
	// Newer has the hubs with newer schemas; nil: there are none.
	Newer  *Newer
	Logger *slog.Logger
}

// Member is this hub among those on the log. It is safe for concurrent use.
type Member struct {
	config Config
	id     string

	mu    sync.Mutex
	lease *etcd.Lease
	// full says that the log has no room for a lease.
	full   bool
	silent bool
	heard  time.Time
	// changed is closed and replaced when any of these change.
	changed chan struct{}
}

// NewMember makes a Member, which has no lease until it runs.
func NewMember(config Config) *Member {
	return &Member{config: config, id: rand.Text(), changed: make(chan struct{})}
}

// ID names this process of the hub among all that there ever are.
func (m *Member) ID() string { return m.id }

// Lease is the hub's lease; nil while it has none. full says that it has none since the log
// has no room for it. changed is closed when that is no longer so.
func (m *Member) Lease() (lease *etcd.Lease, full bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease, m.full, m.changed
}

// Newer reports whether a hub with newer schemas lives, to which this one leaves all that one hub
// is elected for. changed is closed when that is no longer so.
func (m *Member) Newer() (lives bool, changed <-chan struct{}) {
	if m.config.Newer == nil {
		return false, nil
	}
	return m.config.Newer.Live()
}

// Silent says that the log has not answered, or the table was lost, for so long that others
// take this hub for dead.
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

// answers notes that the log has answered.
func (m *Member) answers() {
	m.mu.Lock()
	was := m.silent
	m.silent, m.heard = false, time.Now()
	m.mu.Unlock()
	if was && m.config.Silent != nil {
		m.config.Silent(false)
	}
}

// unanswered notes that it has not.
func (m *Member) unanswered() {
	m.mu.Lock()
	late := !m.heard.IsZero() && time.Since(m.heard) >= m.config.TTL
	m.mu.Unlock()
	if late {
		m.silence("the log has not answered for the time of the hub's lease: sessions end, and others write")
	}
}

// silence has others take this hub for dead.
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

// Run keeps a lease until the context ends, and then gives it back. It must run once the
// table is loaded.
func (m *Member) Run(ctx context.Context) error {
	if m.config.Log.Embedded() {
		if err := m.bury(ctx); err != nil {
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
		for m.config.Log.Lost() && ctx.Err() == nil {
			select {
			case <-time.After(retry):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// follows returns true when the context ends, and false when the table is lost for so long
// that others have to go on: a hub that sees nothing writes nothing. An embedded log has no
// others.
func (m *Member) follows(ctx context.Context) bool {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	var since time.Time
	for {
		switch {
		case m.config.Log.Embedded() || !m.config.Log.Lost():
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

// hold keeps a lease until it or the context ends, or, which it returns as false, the table
// does not follow the log any more.
func (m *Member) hold(ctx context.Context, lease *etcd.Lease) (follows bool) {
	keeping, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { m.tell(keeping, lease) })
	follows = true
	beside.Go(func() {
		follows = m.follows(keeping)
		stop()
	})
	m.set(lease, false)
	err := lease.Keep(keeping, m.answers)
	m.set(nil, false)
	stop()
	beside.Wait()
	m.unanswered()
	if ctx.Err() == nil {
		m.config.Logger.Warn("the hub's lease has ended, asking for another", "error", err)
	}
	// What is under it is not to wait for its end.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeWithin)
	defer cancel()
	if err := lease.Revoke(ending); err != nil {
		m.config.Logger.Debug("the hub's lease ends by itself", "error", err)
	}
	return follows
}

// bury removes what a process before this one has left under its lease: of an embedded log
// there is no other that could live.
func (m *Member) bury(ctx context.Context) error {
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
		return fmt.Errorf("remove what the process before has left: %w", err)
	}
	return m.config.Table.WaitFor(ctx, rev)
}

// tell writes what the hub is under a lease, and what it needs whenever that is much newer
// than what it has said.
func (m *Member) tell(ctx context.Context, lease *etcd.Lease) {
	said, first := m.config.Is, true
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		if now := m.is(); first || m.worthTelling(said, now) {
			value, err := json.Marshal(now)
			if err == nil {
				_, err = m.config.Log.Write(ctx, []etcd.Op{{Key: key.Hub(m.id), Value: value, Under: lease}})
			}
			if err == nil {
				said, first = now, false
			} else if ctx.Err() == nil {
				m.config.Logger.Debug("say what the hub needs of the log", "error", err)
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

// worthTelling says whether what the hub needs is to be said again. While history is to be
// forgotten for its size everyone waits for who has said the least, also who is elected: then
// all that was written counts, but for what hubs write by saying so, which would have no end.
func (m *Member) worthTelling(said, now Hub) bool {
	if m.config.Log.Presses() && now.Seen-said.Seen > int64(len(Hubs(m.config.Table.Snapshot()))) {
		return true
	}
	step := max(tellLeast, int64(m.config.Window/tellPart))
	return !m.config.Alone() && now.Needs-said.Needs >= step
}
