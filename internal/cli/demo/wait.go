package demo

import (
	"context"
	"fmt"
	"time"
)

const (
	// stepTimeout is the time limit for a step of the demo.
	stepTimeout = 3 * time.Minute
	// lookEvery is the interval between checks of a step's result.
	lookEvery = 50 * time.Millisecond
)

// eventually calls check until it returns nil. After the time limit of a step, it returns the last
// error.
func eventually(ctx context.Context, check func(context.Context) error) error {
	deadline, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("timed out after %s", stepTimeout))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last error
	for {
		err := check(deadline)
		if err == nil {
			return nil
		}
		if last == nil || deadline.Err() == nil { // otherwise the error is only that of the time limit
			last = err
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			return fmt.Errorf("%w: %w", context.Cause(deadline), last)
		}
	}
}
