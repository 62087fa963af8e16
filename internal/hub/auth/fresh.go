package auth

import (
	"context"
	"sync"
	"time"
)

// freshEvery is the minimum interval at which the log is read because of requests that would be
// refused.
const freshEvery = 5 * time.Millisecond

// fresh waits until the table contains all earlier writes. Concurrent callers share one read of the
// log, so clients that are refused repeatedly cost little. It is safe for concurrent use.
type fresh struct {
	committed func(context.Context) error
	// turn is held by the running round.
	turn chan struct{}
	// began is when the last round began; the holder of the turn may use it.
	began time.Time

	mu sync.Mutex
	// next is the round that has not begun; nil if there is none.
	next *round
}

// round is one read of the log.
type round struct {
	done chan struct{}
	err  error
}

func newFresh(committed func(context.Context) error) *fresh {
	return &fresh{committed: committed, turn: make(chan struct{}, 1)}
}

// wait joins the next round. The first caller leads it to its end.
func (f *fresh) wait(ctx context.Context) error {
	if f == nil || f.committed == nil {
		return nil
	}
	f.mu.Lock()
	r, leads := f.next, f.next == nil
	if leads {
		r = &round{done: make(chan struct{})}
		f.next = r
	}
	f.mu.Unlock()
	if leads {
		// The conditions of the leader do not apply to the others.
		f.lead(withConditions(context.WithoutCancel(ctx)), r)
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *fresh) lead(ctx context.Context, r *round) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	<-time.After(freshEvery - time.Since(f.began))
	f.mu.Lock()
	f.next = nil // later callers may know of newer writes
	f.mu.Unlock()
	f.began = time.Now()
	r.err = f.committed(ctx)
	close(r.done)
}
