package write

import (
	"context"
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// locks has a lock for each space. It is safe for concurrent use and keeps nothing of
// spaces that nobody locks.
type locks struct {
	mu sync.Mutex
	of map[key.Space]*lock
}

type lock struct {
	held chan struct{} // has an element while the lock is held
	// users counts those who hold it or wait for it; without any it is dropped.
	users int
}

// acquire waits for the lock of a space, or for the end of ctx; done releases the lock.
func (l *locks) acquire(ctx context.Context, space key.Space) (done func(), err error) {
	l.mu.Lock()
	of := l.of[space]
	if of == nil {
		of = &lock{held: make(chan struct{}, 1)}
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
