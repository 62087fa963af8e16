package hub

import (
	"context"
	"sync"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// sessions knows which locations have an agent connected. A location has one
// session at a time: the newest ends the one before. It is safe for concurrent use.
type sessions struct {
	now func() time.Time
	// changed is called, without the lock, when what is known of a location changed.
	changed func(key.Location)

	mu   sync.Mutex
	open map[key.Location]*openSession
	seen map[key.Location]lastSeen
}

type openSession struct {
	location key.Location
	info     wire.Info
	ctx      context.Context
	cancel   context.CancelFunc
	// poke receives when the session should look at its location again.
	poke     chan struct{}
	replaced bool
}

// lastSeen is what is remembered of a location's last session.
type lastSeen struct {
	info  wire.Info
	ended time.Time // zero while a session is open
}

func newSessions(now func() time.Time, changed func(key.Location)) *sessions {
	return &sessions{now: now, changed: changed, open: map[key.Location]*openSession{}, seen: map[key.Location]lastSeen{}}
}

// start starts a session and ends an older one of the location. Every session
// is to be ended.
func (s *sessions) start(ctx context.Context, l key.Location, info wire.Info) *openSession {
	mine := &openSession{location: l, info: info, poke: make(chan struct{}, 1)}
	mine.ctx, mine.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	if older := s.open[l]; older != nil {
		older.replaced = true
		older.cancel()
	}
	s.open[l] = mine
	s.seen[l] = lastSeen{info: info}
	s.mu.Unlock()
	s.changed(l)
	return mine
}

// end ends a session.
func (s *sessions) end(mine *openSession) {
	mine.cancel()
	s.mu.Lock()
	last := s.open[mine.location] == mine
	if last {
		delete(s.open, mine.location)
		s.seen[mine.location] = lastSeen{info: mine.info, ended: s.now()}
	}
	s.mu.Unlock()
	if last {
		s.changed(mine.location)
	}
}

// replaced says whether a newer session took over.
func (s *sessions) replaced(mine *openSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mine.replaced
}

// poke makes the open session of a location, if any, look at it again.
func (s *sessions) poke(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine := s.open[l]; mine != nil {
		select {
		case mine.poke <- struct{}{}:
		default:
		}
	}
}

// connected says whether a session is open, what its agent said of itself, and
// if none is open since when; known is false for a location never seen.
func (s *sessions) connected(l key.Location) (open bool, seen lastSeen, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known = s.seen[l]
	return s.open[l] != nil, seen, known
}

// count is the number of open sessions.
func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
