package agentapi

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Presence is told, for all hubs, which sessions there are here and what agents say of
// themselves.
type Presence interface {
	// Begin and End say that this hub has the session of an agent, and that it has it no
	// longer.
	Begin(of key.Session, is presence.Session)
	End(of key.Session)
	// Say says what is to be said of an agent. Like Begin and End it waits for nothing.
	Say(of key.Session, now presence.Patch)
	// Tell says what an agent says of itself, and returns when all hubs have it, or never will.
	Tell(ctx context.Context, session key.Session, s presence.Statement) error
}

// Sessions knows which agents are connected to this hub. Each, which has a shard of its
// location or the whole, has one session at a time: a new one ends the one before, also one at
// another hub. It is safe for concurrent use.
type Sessions struct {
	now      func() time.Time
	presence Presence

	mu   sync.Mutex
	open map[key.Location]map[key.Shard]*openSession
	seen map[key.Session]LastSeen
	// asks counts the requests besides sessions that are under way. alone is since when agents
	// ask though they have no session at any hub, or when that was last passed on.
	asks  map[key.Session]int
	alone map[key.Session]time.Time
}

type openSession struct {
	of     key.Session
	ctx    context.Context
	cancel context.CancelFunc
	// poke receives when the session must read its settings again.
	poke chan struct{}
	// looks receives what the agent is to be asked; nil: it is not to be.
	looks chan wire.Look
	// replaced says that a newer session has taken over, cut that the log does not answer,
	// forgotten that the location is gone.
	replaced, cut, forgotten bool
}

// LastSeen is what this process remembers of an agent since it started. What all hubs are
// to know is in the log, see package presence.
type LastSeen struct {
	// Opened says that there was a session here. Ended is when the agent was last heard
	// of, if none is open; zero while one is.
	Opened bool
	Ended  time.Time
	// apis is the list that goes with apisDigest.
	apis       []wire.API
	apisDigest string
}

// NewSessions makes a Sessions, which tells the presence of all that all hubs are to know.
func NewSessions(now func() time.Time, tell Presence) *Sessions {
	return &Sessions{
		now: now, presence: tell, open: map[key.Location]map[key.Shard]*openSession{}, seen: map[key.Session]LastSeen{},
		asks: map[key.Session]int{}, alone: map[key.Session]time.Time{},
	}
}

// start starts a session and ends an older one of the same agent. The caller must end it.
// answers says that the agent answers Look frames; lacks and blind are those of
// presence.Session.
func (s *Sessions) start(ctx context.Context, of key.Session, answers bool, lacks string, blind bool) *openSession {
	mine := &openSession{of: of, poke: make(chan struct{}, 1)}
	if answers {
		mine.looks = make(chan wire.Look)
	}
	mine.ctx, mine.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	if older := s.at(of); older != nil {
		older.replaced = true
		older.cancel()
	}
	if s.open[of.Location] == nil {
		s.open[of.Location] = map[key.Shard]*openSession{}
	}
	s.open[of.Location][of.Shard] = mine
	seen := s.seen[of]
	seen.Opened, seen.Ended = true, time.Time{}
	s.seen[of] = seen
	// Under the lock, so that it is told in the order in which it happens.
	s.presence.Begin(of, presence.Session{Since: s.now().UTC(), Lacks: lacks, Blind: blind})
	s.mu.Unlock()
	return mine
}

// at is an open session, for who has the lock; nil: there is none.
func (s *Sessions) at(of key.Session) *openSession { return s.open[of.Location][of.Shard] }

// end ends a session.
func (s *Sessions) end(mine *openSession) {
	mine.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over(mine)
}

// over notes that a session has ended, unless that is known or a newer one is open. It may be
// a while until the session's request ends: its agent may not read. The lock must be held.
func (s *Sessions) over(mine *openSession) {
	if s.at(mine.of) == mine {
		if delete(s.open[mine.of.Location], mine.of.Shard); len(s.open[mine.of.Location]) == 0 {
			delete(s.open, mine.of.Location)
		}
		if seen := s.seen[mine.of]; mine.forgotten {
			delete(s.seen, mine.of)
		} else {
			seen.Ended = s.now()
			s.seen[mine.of] = seen
		}
		s.presence.End(mine.of)
	}
}

// TakenOver ends a session that is open here: another hub has a newer one.
func (s *Sessions) TakenOver(of key.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if older := s.at(of); older != nil {
		older.replaced = true
		older.cancel()
		s.over(older)
	}
}

// Cut ends all sessions, since nothing follows of them while the log does not answer: their
// agents are to look for another hub.
func (s *Sessions) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.open {
		for _, one := range all {
			one.cut = true
			one.cancel()
			s.over(one)
		}
	}
}

// hear notes, until done is called, a request of an agent besides its session: one that asks
// something is not lost, even if its session was cut because it does not read it while it
// walks.
func (s *Sessions) hear(of key.Session) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks[of]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asks[of]--; s.asks[of] == 0 {
			delete(s.asks, of)
		}
		if seen, known := s.seen[of]; known && s.at(of) == nil {
			seen.Ended = s.now()
			s.seen[of] = seen
		}
	}
}

// asksAlone notes that an agent asks something, and whether it has a session at another hub. If it
// has had none for a while, as one that walks for long, that is passed on, and again after each
// while: other hubs don't hear it.
func (s *Sessions) asksAlone(of key.Session, elsewhere bool, while time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if elsewhere || s.at(of) != nil {
		delete(s.alone, of)
		return
	}
	now := s.now()
	since, known := s.alone[of]
	if known && now.Sub(since) < while {
		return
	}
	s.alone[of] = now
	if known {
		s.presence.Say(of, presence.Patch{Heard: &now})
	}
}

// ended says whether a newer session has taken over, and whether the session was cut.
func (s *Sessions) ended(mine *openSession) (replaced, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mine.replaced, mine.cut
}

// Poke makes the open sessions of a location, if any, read its settings again.
func (s *Sessions) Poke(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mine := range s.open[l] {
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

// tell passes on what an agent says of itself, and waits until all hubs have it: the agent says
// something else only then, maybe to another hub. sendAPIs says that this process does not have
// the list of APIs that goes with its digest.
func (s *Sessions) tell(ctx context.Context, session key.Session, statement presence.Statement) (sendAPIs bool, err error) {
	status := statement.Status
	s.mu.Lock()
	seen := s.seen[session]
	if status.APIs != nil {
		seen.apis, seen.apisDigest = status.APIs, status.APIsDigest
		s.seen[session] = seen
	}
	s.mu.Unlock()
	err = s.presence.Tell(ctx, session, statement)
	return status.APIsDigest != "" && status.APIsDigest != seen.apisDigest, err
}

// refuse passes on that an agent was refused for its protocol version.
func (s *Sessions) refuse(of key.Session, protocol string) {
	s.presence.Say(of, presence.Patch{Refused: &protocol})
}

// estrange passes on that an agent has asked for a shard that its location does not have.
func (s *Sessions) estrange(of key.Session, asked key.Shard) {
	strange := asked.String()
	s.presence.Say(of, presence.Patch{Strange: &strange})
}

// exceed passes on how many reports of an agent's last request had no room.
func (s *Sessions) exceed(of key.Session, n int) {
	s.presence.Say(of, presence.Patch{Exceeds: &n})
}

// Forget drops what is remembered of a location that is gone; of its sessions that are open,
// when they end.
func (s *Sessions) Forget(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mine := range s.open[l] {
		mine.forgotten = true
	}
	for of := range s.seen {
		if of.Location == l && s.at(of) == nil {
			delete(s.seen, of)
		}
	}
	maps.DeleteFunc(s.alone, func(of key.Session, _ time.Time) bool { return of.Location == l })
}

// asked is the context of an agent's open session, nil if there is none, and by what the agent
// is asked, nil if it is too old for that.
func (s *Sessions) asked(of key.Session) (open context.Context, looks chan<- wire.Look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.at(of)
	if mine == nil {
		return nil, nil
	}
	return mine.ctx, mine.looks
}

// Connected says whether an agent's session is open here, and what is remembered of the agent.
func (s *Sessions) Connected(of key.Session) (open bool, seen LastSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen = s.seen[of]
	if s.asks[of] > 0 {
		seen.Ended = s.now()
	}
	return s.at(of) != nil, seen
}

// Count is the number of sessions that are open here.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, all := range s.open {
		n += len(all)
	}
	return n
}
