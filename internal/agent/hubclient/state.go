package hubclient

import (
	"errors"
	"sync"
	"time"
)

// State is the state of the session with the hub. It is safe for concurrent use.
type State struct {
	mu     sync.Mutex
	open   bool
	own    bool // the hello has the UID of the location in the ownership metadata of the agent's objects
	number int  // number of the session
	proven bool
	marker string // the newest marker of the hub's log
	// accepted reports whether an operator has accepted the hub's log.
	accepted bool
	ready    bool // the desired objects are known
	since    time.Time
	err      error
	// tried is set once the desired objects of a session are known, or no session could be opened.
	tried bool
}

// NewState returns the state before the first session.
func NewState() *State { return &State{since: time.Now()} }

// greeted records a hello before it is in the store. So a caller of Assures that gets false can
// only have stored its conclusion before the hello, which clears it.
func (s *State) greeted(own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = own
}

func (s *State) connected(proven bool, marker string, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.proven, s.marker, s.accepted, s.since, s.err = true, proven, marker, accepted, time.Now(), nil
	s.number++
}

// accept records whether the log of the open session is accepted, and reports whether that
// has changed.
func (s *State) accept(accepted bool) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.accepted != accepted
	s.accepted = accepted
	return news
}

// marked records that the desired objects are known, and reports whether they were not before.
func (s *State) marked() (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = !s.ready
	s.ready, s.tried = true, true
	return news
}

func (s *State) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.since = time.Now()
	}
	s.open, s.own, s.ready = false, false, false
	if !errors.Is(err, errWalked) && !errors.Is(err, errMoved) {
		s.err, s.tried = err, s.tried || !errors.Is(err, errAccepted) && !errors.Is(err, errRenewed)
	}
}

// failed records the reason why no session can be opened, unless one is open.
func (s *State) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.err, s.tried = err, true
	}
}

// log returns the number of the open session, zero if none is open, the marker of its log, and
// whether that log is accepted.
func (s *State) log() (session int, marker string, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return 0, "", false
	}
	return s.number, s.marker, s.accepted
}

// session returns the number of the open session; zero if none is open.
func (s *State) session() int {
	number, _, _ := s.log()
	return number
}

// Assures reports whether a session is open whose hub has the location that the agent's objects
// name in their ownership metadata.
func (s *State) Assures() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// Accepted reports whether a session is open whose log an operator has accepted.
func (s *State) Accepted() bool {
	_, _, accepted := s.log()
	return accepted
}

// Tried reports whether the desired objects were known once, or no session could be opened.
func (s *State) Tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried
}

// Known reports whether a session is open and the desired objects are known.
func (s *State) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// Proves reports whether a session is open whose log continues the previous one, and the
// desired objects are known.
func (s *State) Proves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready && s.proven
}

// Now is a State at one time.
type Now struct {
	// Open reports whether a session is open; Since is the time of its last change.
	Open  bool
	Since time.Time
	// Proven reports whether the log of the last session continues the previous one; Marker is
	// the log's marker while a session is open.
	Proven bool
	Marker string
	// Err is the error that ended the last session, or prevents one; nil while one is open.
	Err error
}

// Now returns the current state.
func (s *State) Now() Now {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Now{Open: s.open, Since: s.since, Proven: s.proven, Err: s.err}
	if s.open {
		n.Marker = s.marker
	}
	return n
}
