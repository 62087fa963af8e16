package etcd

import (
	"context"
	"errors"
	"sync"
)

// ErrGivenUp is returned when a copy of the log was aborted to free space for a write.
var ErrGivenUp = errors.New("the copy is given up, since a write needs the room that etcd keeps for it: " +
	"delete what is not needed, or try again when less is written")

// copies tracks the running copies of the log. While a copy runs, etcd cannot reuse the space of
// replaced or deleted values, so copies are aborted when a write waits for space. The zero value
// is ready to use. It is safe for concurrent use.
type copies struct {
	mu   sync.Mutex
	next int
	all  map[int]context.CancelCauseFunc
}

// begin registers a copy. The copy must stop when the returned context ends, and the caller must
// call done when it has stopped.
func (c *copies) begin(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[int]context.CancelCauseFunc{}
	}
	n := c.next
	c.next++
	c.all[n] = cancel
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, n)
	}
}

// giveUp aborts all copies, and reports whether there were any.
func (c *copies) giveUp() (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	some = len(c.all) > 0
	for _, cancel := range c.all {
		cancel(ErrGivenUp)
	}
	clear(c.all)
	return some
}
