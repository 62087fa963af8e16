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
	own    bool // the hub has said hello, and says that the location as which the agent marks objects exists
	number int  // of the session: each has another
	proven bool
	marker string // the newest hub marker of the hub's log
	// accepted says that an operator has accepted the hub's log.
	accepted bool
	ready    bool // the desired content is known
	since    time.Time
	err      error
	// tried is set once a session was opened and its content known, or could not be.
	tried bool
}

// NewState is the state before the first session.
func NewState() *State { return &State{since: time.Now()} }

// greeted notes a hello, before it is in the store: whoever finds that the location is not assured
// after that, and notes what follows, does so before the hello, which clears it.
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

// accept notes whether the log of the open session is accepted, and returns whether that
// is news.
func (s *State) accept(accepted bool) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.accepted != accepted
	s.accepted = accepted
	return news
}

// marked notes that the desired content is known, and returns whether that is news.
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

// failed notes why no session can be opened, as long as none is.
func (s *State) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.err, s.tried = err, true
	}
}

// log is the number of the open session, zero if none is open, the marker of its log, and
// whether that log is accepted.
func (s *State) log() (session int, marker string, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return 0, "", false
	}
	return s.number, s.marker, s.accepted
}

// session is the number of the open session; zero: none is open.
func (s *State) session() int {
	number, _, _ := s.log()
	return number
}

// Assures says that there is a session whose hub says that the location as which the agent
// marks objects exists.
func (s *State) Assures() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// Accepted says that a session is open whose log an operator has accepted.
func (s *State) Accepted() bool {
	_, _, accepted := s.log()
	return accepted
}

// Tried reports whether the desired content was known once, or a session could not be had.
func (s *State) Tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried
}

// Known says that a session is open and that the desired content is known.
func (s *State) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// Proves says that a session is open whose hub's log continues the one before, and
// that the desired content is known.
func (s *State) Proves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready && s.proven
}

// Now is a State at one time.
type Now struct {
	// Open says whether a session is open; Since is since when that is so.
	Open  bool
	Since time.Time
	// Proven says that the log of the last session continues the one before; Marker is
	// the log's marker while a session is open.
	Proven bool
	Marker string
	// Err is why the last session ended, or why none can be opened; nil while one is open.
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
