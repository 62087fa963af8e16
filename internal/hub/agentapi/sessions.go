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

// Membership publishes the sessions of this hub, and the status of agents, to all hubs.
type Membership interface {
	// Begin and End publish the start and end of a session at this hub.
	Begin(id key.Session, is presence.Session)
	End(id key.Session)
	// Say publishes a change of an agent's status. Begin, End and Say do not block.
	Say(id key.Session, now presence.Patch)
	// Tell publishes the status of an agent. It blocks until all hubs have it, or it fails.
	Tell(ctx context.Context, session key.Session, s presence.Statement) error
}

// Sessions has the sessions of agents at this hub. Each agent, of a location or of one of its shards,
// has one session at a time. A new session ends the previous one, also one at another hub. It is safe
// for concurrent use.
type Sessions struct {
	now        func() time.Time
	membership Membership

	mu   sync.Mutex
	open map[key.Location]map[key.Shard]*openSession
	seen map[key.Session]LastSeen
	// requests counts the current requests other than sessions. alone has the times at which agents
	// were first seen without a session at any hub, or last published as such.
	requests map[key.Session]int
	alone    map[key.Session]time.Time
}

type openSession struct {
	id     key.Session
	ctx    context.Context
	cancel context.CancelFunc
	// notify receives when the session must read its settings again.
	notify chan struct{}
	// inspections receives inspect requests; nil if the agent does not support them.
	inspections chan wire.InspectRequest
	// replaced is set if a newer session has replaced this one, cut if the log does not respond,
	// and forgotten if the location was removed.
	replaced, cut, forgotten bool
}

// LastSeen has what this process knows of an agent since it started. The log has what all hubs know,
// see package presence.
type LastSeen struct {
	// Opened is set if there was a session here. Ended is the time of the last request without an
	// open session; zero while one is open.
	Opened bool
	Ended  time.Time
	// apis is the list for apisDigest.
	apis       []wire.API
	apisDigest string
}

// NewSessions returns a Sessions, which publishes to all hubs by a Membership.
func NewSessions(now func() time.Time, tell Membership) *Sessions {
	return &Sessions{
		now: now, membership: tell, open: map[key.Location]map[key.Shard]*openSession{}, seen: map[key.Session]LastSeen{},
		requests: map[key.Session]int{}, alone: map[key.Session]time.Time{},
	}
}

// start starts a session and ends an older one of the same agent. The caller must end it. answers is
// set if the agent supports inspect requests; lacks and blind are those of presence.Session.
func (s *Sessions) start(ctx context.Context, id key.Session, answers bool, lacks string, blind bool) *openSession {
	mine := &openSession{id: id, notify: make(chan struct{}, 1)}
	if answers {
		mine.inspections = make(chan wire.InspectRequest)
	}
	mine.ctx, mine.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	if older := s.find(id); older != nil {
		older.replaced = true
		older.cancel()
	}
	if s.open[id.Location] == nil {
		s.open[id.Location] = map[key.Shard]*openSession{}
	}
	s.open[id.Location][id.Shard] = mine
	seen := s.seen[id]
	seen.Opened, seen.Ended = true, time.Time{}
	s.seen[id] = seen
	// Under the lock, so that events are published in order.
	s.membership.Begin(id, presence.Session{Since: s.now().UTC(), Lacks: lacks, Blind: blind})
	s.mu.Unlock()
	return mine
}

// find returns the open session of an agent, or nil. The lock must be held.
func (s *Sessions) find(id key.Session) *openSession { return s.open[id.Location][id.Shard] }

// end ends a session.
func (s *Sessions) end(mine *openSession) {
	mine.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over(mine)
}

// over records that a session has ended, unless that is known or a newer one is open. Its request may
// end later, because its agent may not read. The lock must be held.
func (s *Sessions) over(mine *openSession) {
	if s.find(mine.id) == mine {
		if delete(s.open[mine.id.Location], mine.id.Shard); len(s.open[mine.id.Location]) == 0 {
			delete(s.open, mine.id.Location)
		}
		if seen := s.seen[mine.id]; mine.forgotten {
			delete(s.seen, mine.id)
		} else {
			seen.Ended = s.now()
			s.seen[mine.id] = seen
		}
		s.membership.End(mine.id)
	}
}

// TakenOver ends a session here because another hub has a newer one.
func (s *Sessions) TakenOver(id key.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if older := s.find(id); older != nil {
		older.replaced = true
		older.cancel()
		s.over(older)
	}
}

// Cut ends all sessions because the log does not respond. Their agents connect to another hub.
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

// beginRequest records a request of an agent other than its session, until done is called. Such an
// agent is not disconnected, even if its session was cut because it does not read during a
// comparison.
func (s *Sessions) beginRequest(id key.Session) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[id]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.requests[id]--; s.requests[id] == 0 {
			delete(s.requests, id)
		}
		if seen, known := s.seen[id]; known && s.find(id) == nil {
			seen.Ended = s.now()
			s.seen[id] = seen
		}
	}
}

// requestWithoutSession records a request of an agent; elsewhere is set if the agent has a session at
// another hub. If it has had no session for some time, as during a long comparison, the request is
// published, and again each time after that: other hubs do not receive its requests.
func (s *Sessions) requestWithoutSession(id key.Session, elsewhere bool, while time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if elsewhere || s.find(id) != nil {
		delete(s.alone, id)
		return
	}
	now := s.now()
	since, known := s.alone[id]
	if known && now.Sub(since) < while {
		return
	}
	s.alone[id] = now
	if known {
		s.membership.Say(id, presence.Patch{LastSeen: &now})
	}
}

// ended reports whether a newer session has replaced this one, and whether it was cut.
func (s *Sessions) ended(mine *openSession) (replaced, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mine.replaced, mine.cut
}

// Notify makes the open sessions of a location read its settings again.
func (s *Sessions) Notify(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mine := range s.open[l] {
		select {
		case mine.notify <- struct{}{}:
		default:
		}
	}
}

// NotifyAll makes all open sessions read their settings again.
func (s *Sessions) NotifyAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, l := range open {
		s.Notify(l)
	}
}

// tell publishes the status of an agent, and blocks until all hubs have it: the agent sends its next
// status only then, possibly to another hub. sendAPIs is set if this process does not have the
// list of APIs for its digest.
func (s *Sessions) tell(ctx context.Context, session key.Session, statement presence.Statement) (sendAPIs bool, err error) {
	status := statement.Status
	s.mu.Lock()
	seen := s.seen[session]
	if status.APIs != nil {
		seen.apis, seen.apisDigest = status.APIs, status.APIsDigest
		s.seen[session] = seen
	}
	s.mu.Unlock()
	err = s.membership.Tell(ctx, session, statement)
	return status.APIsDigest != "" && status.APIsDigest != seen.apisDigest, err
}

// refuse publishes that an agent was refused for its protocol version.
func (s *Sessions) refuse(id key.Session, protocol string) {
	s.membership.Say(id, presence.Patch{Refused: &protocol})
}

// estrange publishes that an agent has requested a shard that its location does not have.
func (s *Sessions) estrange(id key.Session, requested key.Shard) {
	strange := requested.String()
	s.membership.Say(id, presence.Patch{Strange: &strange})
}

// exceed publishes the number of reports in an agent's last request that exceeded the limits.
func (s *Sessions) exceed(id key.Session, n int) {
	s.membership.Say(id, presence.Patch{Exceeds: &n})
}

// Forget drops the data of a removed location; that of open sessions when they end.
func (s *Sessions) Forget(l key.Location) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mine := range s.open[l] {
		mine.forgotten = true
	}
	for id := range s.seen {
		if id.Location == l && s.find(id) == nil {
			delete(s.seen, id)
		}
	}
	maps.DeleteFunc(s.alone, func(id key.Session, _ time.Time) bool { return id.Location == l })
}

// inspector returns the context of an agent's open session, and the channel of inspect requests. open
// is nil without a session, and the channel is nil if the agent does not support inspect requests.
func (s *Sessions) inspector(id key.Session) (open context.Context, inspections chan<- wire.InspectRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.find(id)
	if mine == nil {
		return nil, nil
	}
	return mine.ctx, mine.inspections
}

// Connected reports whether an agent's session is open here, and returns the LastSeen of the agent.
func (s *Sessions) Connected(id key.Session) (open bool, seen LastSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen = s.seen[id]
	if s.requests[id] > 0 {
		seen.Ended = s.now()
	}
	return s.find(id) != nil, seen
}

// Count returns the number of open sessions here.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, all := range s.open {
		n += len(all)
	}
	return n
}
