package access

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// reuseGrace bounds for how long a credential that has just been renewed is refused
// and no more: requests that were sent before may still arrive, since networks repeat for
// two minutes what was not acknowledged.
const reuseGrace = 2 * time.Minute

// Moves knows which locations have begun to use a new credential just now, by whichever
// hub. It goes by how much time has passed, not by any clock that can be set. It observes
// a table, and is safe for concurrent use.
type Moves struct {
	mu sync.Mutex
	// at is when a location was seen to; of what was before started nothing is known.
	at      map[key.Location]time.Time
	started time.Time
}

// NewMoves makes Moves of a table that is not loaded yet.
func NewMoves() *Moves { return &Moves{at: map[key.Location]time.Time{}, started: time.Now()} }

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
		if l, ok := key.EnrolmentOf(c.Cur.Key); ok && enroll.UsedOf(c.Prev.Value) != enroll.UsedOf(c.Cur.Value) {
			m.note(l)
		}
	}
}

func (m *Moves) note(l key.Location) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const sweep = 1024
	if len(m.at) >= sweep {
		for l, at := range m.at {
			if time.Since(at) > reuseGrace {
				delete(m.at, l)
			}
		}
	}
	m.at[l] = time.Now()
}

// just says whether a location may have begun to use a new credential within a while, or
// within reuseGrace if that is shorter.
func (m *Moves) just(l key.Location, while time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.started
	if at, ok := m.at[l]; ok {
		since = at
	}
	return time.Since(since) < min(reuseGrace, while)
}
