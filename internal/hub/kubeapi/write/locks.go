package write

import (
	"context"
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// locks has a lock for each space, which a number of callers may hold at a time. It is safe for
// concurrent use and keeps nothing of spaces that nobody locks.
type locks struct {
	holders int

	mu sync.Mutex
	of map[key.Space]*lock
}

func newLocks(holders int) *locks { return &locks{holders: holders, of: map[key.Space]*lock{}} }

type lock struct {
	held chan struct{} // has an element for each holder
	// users counts those who hold it or wait for it; without any it is dropped.
	users int
}

// acquire waits for the lock of a space, or for the end of ctx; done releases the lock.
func (l *locks) acquire(ctx context.Context, space key.Space) (done func(), err error) {
	l.mu.Lock()
	of := l.of[space]
	if of == nil {
		of = &lock{held: make(chan struct{}, l.holders)}
		l.of[space] = of
	}
	of.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(l.of, space)
		}
	}
	select {
	case of.held <- struct{}{}:
		return func() { <-of.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
