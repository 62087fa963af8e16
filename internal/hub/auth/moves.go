package auth

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// reuseGrace bounds for how long a credential that has just been renewed is refused
// and no more: requests that were sent before may still arrive, since networks repeat for
// two minutes what was not acknowledged.
const reuseGrace = 2 * time.Minute

// Moves knows which agents have begun to use a new credential just now, by whichever
// hub. It goes by how much time has passed, not by any clock that can be set. It observes
// a table, and is safe for concurrent use.
type Moves struct {
	mu sync.Mutex
	// at is when an agent was seen to; of what was before started nothing is known.
	at      map[agentOf]time.Time
	started time.Time
}

// agentOf is one of a location's agents, by the number of its shard.
type agentOf struct {
	location key.Location
	shard    int
}

// NewMoves makes Moves of a table that is not loaded yet.
func NewMoves() *Moves { return &Moves{at: map[agentOf]time.Time{}, started: time.Now()} }

// Reset implements table.Observer.
func (m *Moves) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.at)
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
				m.note(agentOf{l, shard})
			}
		}
	}
}

func (m *Moves) note(one agentOf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const sweep = 1024
	if len(m.at) >= sweep {
		for other, at := range m.at {
			if time.Since(at) > reuseGrace {
				delete(m.at, other)
			}
		}
	}
	m.at[one] = time.Now()
}

// just says whether an agent may have begun to use a new credential within a while, or
// within reuseGrace if that is shorter.
func (m *Moves) just(one agentOf, while time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.started
	if at, ok := m.at[one]; ok {
		since = at
	}
	return time.Since(since) < min(reuseGrace, while)
}
