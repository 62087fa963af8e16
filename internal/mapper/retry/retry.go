// Package retry is how the agent waits: for a time, longer after each failure, or until
// it is told that there is something to do.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// First is the wait after the first failure, where nothing else is said.
	First = 100 * time.Millisecond
	// MaxFailures is up to how many failures in a row are counted.
	MaxFailures = 20
)

// Backoff is how long to wait after a number of failures in a row: twice as
// long each time, up to a cap, and up to a quarter less so that those who failed
// together do not come back together.
func Backoff(failures uint8, first, most time.Duration) time.Duration {
	d := most
	if failures < MaxFailures {
		d = min(most, first<<failures)
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Signal tells one who waits that there is something to do. It has one slot: what has
// been told more than once, and not been heard yet, is heard once.
type Signal chan struct{}

// NewSignal is a signal that nobody has raised yet.
func NewSignal() Signal { return make(Signal, 1) }

// Raise tells it. It does not wait.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
