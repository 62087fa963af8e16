// Package watchdog reports work that takes too long on one subject, and work that has stopped.
//
// The worker records what it works on; it needs no clock, and pays for a few atomic writes. The
// Watchdog is asked at intervals.
package watchdog

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// slowAfter is how long work on one subject takes until it is logged.
	slowAfter = time.Second
	// stoppedAfter is how long work goes on without a step until it counts as stopped. A step
	// is bounded to a fraction of a second.
	stoppedAfter = time.Minute
	// maxBetween is how much of the time between two checks counts. A process that was frozen,
	// or got no processor, could make no step.
	maxBetween = time.Second
)

// Work is what one worker does. The methods of a nil Work do nothing. Begin, Step and End are
// for one goroutine at a time.
type Work struct {
	name    string
	subject atomic.Pointer[string]
	steps   atomic.Uint64
}

// Begin records that work on a subject begins.
func (w *Work) Begin(subject string) {
	if w != nil {
		w.subject.Store(&subject)
		w.steps.Add(1)
	}
}

// Step records that the work goes on.
func (w *Work) Step() {
	if w != nil {
		w.steps.Add(1)
	}
}

// End records that there is no work.
func (w *Work) End() {
	if w != nil {
		w.subject.Store(nil)
	}
}

// Watchdog looks after Works. It is safe for concurrent use.
type Watchdog struct {
	logger *slog.Logger
	works  []*Work

	mu   sync.Mutex
	seen map[*Work]*observation
}

// observation is what was last seen of a Work.
type observation struct {
	subject        *string
	steps          uint64
	began, checked time.Time
	// idle is how long there was no step.
	idle     time.Duration
	isLogged bool
}

// New makes a Watchdog of Works with some names, in their order.
func New(logger *slog.Logger, names ...string) *Watchdog {
	d := &Watchdog{logger: logger, seen: map[*Work]*observation{}}
	for _, name := range names {
		d.works = append(d.works, &Work{name: name})
	}
	return d
}

// Work returns the Work with a name; nil if there is none.
func (d *Watchdog) Work(name string) *Work {
	for _, w := range d.works {
		if w.name == name {
			return w
		}
	}
	return nil
}

// Check looks at all Works at a time. It logs the subject of one that has been at it for more than
// a second, once, and returns an error, which names no subject, if one has stopped. It is to be called
// several times a second.
func (d *Watchdog) Check(now time.Time) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.works {
		subject, steps := w.subject.Load(), w.steps.Load()
		if subject == nil {
			delete(d.seen, w)
			continue
		}
		o := d.seen[w]
		if o == nil || o.subject != subject {
			o = &observation{subject: subject, steps: steps, began: now, checked: now}
			d.seen[w] = o
		}
		o.idle += min(now.Sub(o.checked), maxBetween)
		o.checked = now
		if o.steps != steps {
			o.steps, o.idle = steps, 0
		}
		if took := now.Sub(o.began); took > slowAfter && !o.isLogged {
			o.isLogged = true
			d.logger.Warn("work on one object takes long; look at its expressions", "work", w.name, "object", *subject, "took", took)
		}
		if o.idle > stoppedAfter { // a client that asks for the health of a hub may not know its objects
			err = fmt.Errorf("%s has stopped: the log of the hub names the object", w.name)
		}
	}
	return err
}
