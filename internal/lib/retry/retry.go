// Package retry provides ways to wait: a pause, an exponential backoff after failures, a
// signal that wakes one goroutine, and a loop that does work on a signal until it succeeds.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// First is the default wait after the first failure.
	First = 100 * time.Millisecond
	// MaxFailures is the maximum count of consecutive failures.
	MaxFailures = 20
)

// Backoff returns the wait after a number of consecutive failures: first, doubled for each failure
// up to most, less a random part of up to a quarter. The random part keeps clients that failed
// together from retrying together.
func Backoff(failures uint8, first, most time.Duration) time.Duration {
	d := most
	if failures < MaxFailures {
		d = min(most, first<<failures)
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Signal notifies one receiver that there is work. Raising it again before the receiver has
// received has no effect.
type Signal chan struct{}

// NewSignal returns a signal that is not raised.
func NewSignal() Signal { return make(Signal, 1) }

// Raise raises the signal. It does not block.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Run calls do each time the signal is raised, until ctx ends. After an error it calls do again, after a
// pause. failed returns the length of that pause; failures is the number of errors in a row before this one.
func (s Signal) Run(ctx context.Context, do func(context.Context) error, failed func(err error, failures uint8) time.Duration) {
	for {
		select {
		case <-s:
		case <-ctx.Done():
			return
		}
		for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, MaxFailures) {
			err := do(ctx)
			if err == nil {
				break
			}
			Pause(ctx, failed(err, failures))
		}
	}
}
