package read

import (
	"sync"

	"orrery.dev/orrery/internal/hub/respond"
)

// watches has the running watches of a server. After close, none starts. It is safe for concurrent use.
type watches struct {
	mu     sync.Mutex
	closed bool
	// done is closed when all watches must end.
	done    chan struct{}
	running sync.WaitGroup
}

// begin counts a watch; the caller calls end when it has ended.
func (s *watches) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return respond.NotNow("the server is shutting down")
	}
	s.running.Add(1)
	return nil
}

// end counts the end of a watch.
func (s *watches) end() { s.running.Done() }

// close ends all watches and waits for them.
func (s *watches) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.running.Wait()
}
