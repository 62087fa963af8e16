package etcd

import (
	"context"
	"errors"
	"sync"
)

// ErrGivenUp says that a copy of the log was given up before it was complete.
var ErrGivenUp = errors.New("the copy is given up, since a write needs the room that etcd keeps for it: " +
	"delete what is not needed, or try again when less is written")

// copies are the copies of the log that are being made. While they are, what is replaced
// or deleted still takes room, so they are given up when a write waits for room. The zero
// value is ready to use; it is safe for concurrent use.
type copies struct {
	mu   sync.Mutex
	next int
	all  map[int]context.CancelCauseFunc
}

// begin begins a copy, which must end with the returned context; done must be called when
// it has ended.
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

// giveUp ends all copies; some says that there were any.
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
