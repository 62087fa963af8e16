package auth

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// reuseGrace is the time after a renewal in which the use of the previous credential is only
// refused. Requests that were sent before may still arrive, since networks retransmit for two
// minutes.
const reuseGrace = 2 * time.Minute

// Moves records which agents have recently begun to use a new credential, at any hub. It measures
// elapsed time, and does not depend on clocks that can be set. It observes a table, and is safe for
// concurrent use.
type Moves struct {
	mu sync.Mutex
	// changed is when a change of an agent was observed; nothing is known from before started.
	changed map[agentOf]time.Time
	started time.Time
}

// agentOf is one of a location's agents, by the number of its shard.
type agentOf struct {
	location key.Location
	shard    int
}

// NewMoves returns Moves for a table that is not loaded yet.
func NewMoves() *Moves { return &Moves{changed: map[agentOf]time.Time{}, started: time.Now()} }

// Reset implements table.Observer.
func (m *Moves) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.changed)
	m.started = time.Now()
}

// Observe implements table.Observer.
func (m *Moves) Observe(_ int64, changes []table.Change) {
	for _, c := range changes {
		if c.Prev == nil || c.Cur == nil {
			continue
		}
		if l, ok := key.EnrolmentOf(c.Cur.Key); ok {
			for _, shard := range enroll.Moved(c.Prev.Value, c.Cur.Value) {
				m.record(agentOf{l, shard})
			}
		}
	}
}

func (m *Moves) record(one agentOf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const sweep = 1024
	if len(m.changed) >= sweep {
		for other, changed := range m.changed {
			if time.Since(changed) > reuseGrace {
				delete(m.changed, other)
			}
		}
	}
	m.changed[one] = time.Now()
}

// just reports whether an agent may have begun to use a new credential within a duration, or within
// reuseGrace if that is shorter.
func (m *Moves) just(one agentOf, while time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.started
	if changed, ok := m.changed[one]; ok {
		since = changed
	}
	return time.Since(since) < min(reuseGrace, while)
}
