package readiness

import (
	"sync"
	"time"
)

// phase reports whether the hub serves requests. It does once the table is loaded, and the hub's
// marker is in the log or the log is full. It does not while the table is lost. It is safe for
// concurrent use.
type phase struct {
	// wake receives a value when the table is loaded.
	wake chan struct{}

	mu sync.Mutex
	// epoch counts how often the table was lost or loaded.
	epoch         int
	loaded, ready bool
	// marked reports whether the marker of this epoch is in the log.
	marked bool
}

func newPhase() *phase { return &phase{wake: make(chan struct{}, 1)} }

// lose records that the table is lost: no requests are served.
func (p *phase) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.loaded, p.ready, p.marked = false, false, false
}

func (p *phase) load() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.loaded, p.ready, p.marked = true, false, false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// now returns the current epoch. todo reports that its marker has yet to be written; again reports
// that requests are already served and only the marker is missing.
func (p *phase) now() (epoch int, todo, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch, p.loaded && !p.marked, p.ready
}

// serve starts serving requests, unless the epoch is over. It reports whether requests are served.
func (p *phase) serve(epoch int, marked bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == p.epoch {
		p.ready, p.marked = true, marked
	}
	return p.ready
}

func (p *phase) serves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// answering records since when the log responds, by the requests to it. It is safe for concurrent
// use.
type answering struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	fails bool
}

func newAnswering(now func() time.Time) *answering { return &answering{now: now} }

// record records the result of a request to the log.
func (a *answering) record(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.fails {
		a.since = a.now()
	}
	a.fails = err != nil
}

// state returns since when the log responds, zero if it always did, and whether it does.
func (a *answering) state() (since time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since, !a.fails
}
