package auth

import (
	"context"
	"sync"
	"time"
)

// freshEvery is how often the log is asked at most how far it is for the sake of
// requests that would be refused.
const freshEvery = 5 * time.Millisecond

// fresh waits until the table shows what was acknowledged to anybody before. All who
// wait at a time share what that takes: whoever is refused again and again costs the log
// little. It is safe for concurrent use.
type fresh struct {
	committed func(context.Context) error
	// turn is held by the round that is under way.
	turn chan struct{}
	// began is when the last round did; who has the turn has it.
	began time.Time

	mu sync.Mutex
	// next is the round that has not begun; nil: there is none.
	next *round
}

// round is one time that the log is asked.
type round struct {
	done chan struct{}
	err  error
}

func newFresh(committed func(context.Context) error) *fresh {
	return &fresh{committed: committed, turn: make(chan struct{}, 1)}
}

// wait joins the round that begins next. The first to join leads it, to its end.
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
		// What let the leader in says nothing of the others.
		f.lead(withPremises(context.WithoutCancel(ctx)), r)
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
	f.next = nil // who comes from now on may know of more than this round sees
	f.mu.Unlock()
	f.began = time.Now()
	r.err = f.committed(ctx)
	close(r.done)
}
