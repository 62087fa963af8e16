// Package retry is how long the agent waits before it tries again.
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
