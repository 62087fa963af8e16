package agents

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// Sessions knows which locations have an agent connected. A location has one session at
// a time: a new one ends the one before. It is safe for concurrent use.
type Sessions struct {
	now func() time.Time
	// changed is called, without the lock, when what is known of a location has changed.
	changed func(key.Location)

	mu   sync.Mutex
	open map[key.Location]*openSession
	seen map[key.Location]LastSeen
	// asks counts the requests besides sessions that are under way.
	asks map[key.Location]int
}

type openSession struct {
	location key.Location
	ctx      context.Context
	cancel   context.CancelFunc
	// poke receives when the session must read its settings again.
	poke chan struct{}
	// looks receives what the agent is to be asked; nil: it is not to be.
	looks    chan wire.Look
	replaced bool
}

// LastSeen is what is remembered of a location since the hub started.
type LastSeen struct {
	// Opened says that there was a session. Ended is when the location was last heard
	// of, if none is open; zero while one is.
	Opened bool
	Ended  time.Time
	// Status is what the agent last said of itself; nil: nothing yet.
	Status *wire.AgentStatus
	// SignedBy names the authority that had signed the credential which that was sent with;
	// empty: none.
	SignedBy string
	// Refused is the protocol version for which an agent was refused; empty if none was,
	// or one has connected since.
	Refused string
	// Lacks is what of the location's spec the agent of the last session does not know, and
	// may not ignore; empty: nothing.
	Lacks string
	// Blind says that the agent of the last session does not report what was not placed, and
	// Exceeds how many such reports of its last request had no room.
	Blind   bool
	Exceeds int
	// dropped is the newest revision at which reports of what was not placed were removed.
	dropped int64
	// apis is the list that goes with apisDigest.
	apis       []wire.API
	apisDigest string
}

// NewSessions makes a Sessions: changed is called when what is known of a location has changed.
func NewSessions(now func() time.Time, changed func(key.Location)) *Sessions {
	return &Sessions{now: now, changed: changed, open: map[key.Location]*openSession{}, seen: map[key.Location]LastSeen{}, asks: map[key.Location]int{}}
}

// start starts a session and ends an older one of the location. The caller must end it.
// answers says that its agent answers Look frames; lacks and blind are those of LastSeen.
func (s *Sessions) start(ctx context.Context, l key.Location, answers bool, lacks string, blind bool) *openSession {
	mine := &openSession{location: l, poke: make(chan struct{}, 1)}
	if answers {
		mine.looks = make(chan wire.Look)
	}
	mine.ctx, mine.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	if older := s.open[l]; older != nil {
		older.replaced = true
		older.cancel()
	}
	s.open[l] = mine
	seen := s.seen[l]
	seen.Opened, seen.Ended, seen.Refused, seen.Lacks, seen.Blind, seen.Exceeds = true, time.Time{}, "", lacks, blind, 0
	s.seen[l] = seen
	s.mu.Unlock()
	s.changed(l)
	return mine
}

// end ends a session.
func (s *Sessions) end(mine *openSession) {
	mine.cancel()
	s.mu.Lock()
	last := s.open[mine.location] == mine
	if last {
		delete(s.open, mine.location)
		seen := s.seen[mine.location]
		seen.Ended = s.now()
		s.seen[mine.location] = seen
	}
	s.mu.Unlock()
	if last {
		s.changed(mine.location)
	}
}

// hear notes, until done is called, a request besides a location's session: an agent
// that asks something is not lost, even if its session was cut because it does not read
// it while it walks.
func (s *Sessions) hear(l key.Location) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks[l]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asks[l]--; s.asks[l] == 0 {
			delete(s.asks, l)
		}
		if seen, known := s.seen[l]; known && s.open[l] == nil {
			seen.Ended = s.now()
			s.seen[l] = seen
		}
	}
}

// replaced says whether a newer session has taken over.
func (s *Sessions) replaced(mine *openSession) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mine.replaced
}

// Poke makes the open session of a location, if any, read its settings again.
func (s *Sessions) Poke(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine := s.open[l]; mine != nil {
		select {
		case mine.poke <- struct{}{}:
		default:
		}
	}
}

// PokeAll makes all open sessions read their settings again.
func (s *Sessions) PokeAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, l := range open {
		s.Poke(l)
	}
}

// tell keeps what an agent says of itself. sendAPIs says that the hub does not have the
// list of APIs that goes with its digest.
func (s *Sessions) tell(l key.Location, status wire.AgentStatus, signedBy string) (sendAPIs bool) {
	s.mu.Lock()
	seen := s.seen[l]
	if status.APIs != nil {
		seen.apis, seen.apisDigest = status.APIs, status.APIsDigest
	}
	status.APIs = nil // not to be kept twice
	seen.Status, seen.SignedBy = &status, signedBy
	s.seen[l] = seen
	s.mu.Unlock()
	s.changed(l)
	return status.APIsDigest != "" && status.APIsDigest != seen.apisDigest
}

// refuse notes that an agent was refused for its protocol version.
func (s *Sessions) refuse(l key.Location, protocol string) {
	s.mu.Lock()
	seen := s.seen[l]
	news := seen.Refused != protocol
	seen.Refused = protocol
	s.seen[l] = seen
	s.mu.Unlock()
	if news {
		s.changed(l)
	}
}

// exceed notes how many reports of a location's last request had no room.
func (s *Sessions) exceed(l key.Location, n int) {
	s.mu.Lock()
	seen := s.seen[l]
	news := seen.Exceeds != n
	seen.Exceeds = n
	s.seen[l] = seen
	s.mu.Unlock()
	if news {
		s.changed(l)
	}
}

// Drop notes that reports of what was not placed at a location were removed at a revision. Its
// agent is told so when its session begins, or is poked.
func (s *Sessions) Drop(l key.Location, rev int64) {
	s.mu.Lock()
	seen := s.seen[l]
	seen.dropped = max(seen.dropped, rev)
	s.seen[l] = seen
	s.mu.Unlock()
}

// Forget drops what is remembered of a location that is gone.
func (s *Sessions) Forget(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[l] == nil {
		delete(s.seen, l)
	}
}

// asked is the context of a location's open session, nil if there is none, and by what its
// agent is asked, nil if it is too old for that.
func (s *Sessions) asked(l key.Location) (open context.Context, looks chan<- wire.Look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.open[l]
	if mine == nil {
		return nil, nil
	}
	return mine.ctx, mine.looks
}

// Connected says whether a session is open, and what is remembered of the location.
func (s *Sessions) Connected(l key.Location) (open bool, seen LastSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen = s.seen[l]
	if s.asks[l] > 0 {
		seen.Ended = s.now()
	}
	return s.open[l] != nil, seen
}

// Count is the number of open sessions.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
