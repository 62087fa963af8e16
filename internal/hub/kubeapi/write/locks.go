package write

import (
	"context"
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// locks has a lock for each space, with a limited number of holders. It is safe for concurrent use,
// and drops locks without holders and waiters.
type locks struct {
	holders int

	mu      sync.Mutex
	bySpace map[key.Space]*lock
}

func newLocks(holders int) *locks { return &locks{holders: holders, bySpace: map[key.Space]*lock{}} }

type lock struct {
	held chan struct{} // has an element for each holder
	// users counts holders and waiters; without any, the lock is dropped.
	users int
}

// acquire waits for the lock of a space, or for the end of ctx; done releases the lock.
func (l *locks) acquire(ctx context.Context, space key.Space) (done func(), err error) {
	l.mu.Lock()
	spaceLock := l.bySpace[space]
	if spaceLock == nil {
		spaceLock = &lock{held: make(chan struct{}, l.holders)}
		l.bySpace[space] = spaceLock
	}
	spaceLock.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if spaceLock.users--; spaceLock.users == 0 {
			delete(l.bySpace, space)
		}
	}
	select {
	case spaceLock.held <- struct{}{}:
		return func() { <-spaceLock.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
