package space

import (
	"context"
	"sync"

	"orrery.dev/orrery/internal/key"
)

// turns lets one caller at a time work on a space. It is safe for concurrent use and
// keeps nothing of spaces that nobody works on.
type turns struct {
	mu sync.Mutex
	of map[key.Space]*turn
}

type turn struct {
	held chan struct{} // has an element while somebody works
	// users are those who work or wait; without any the turn is forgotten.
	users int
}

// lock waits for the turn of the caller, or for the end of ctx; done ends the turn.
func (t *turns) lock(ctx context.Context, space key.Space) (done func(), err error) {
	t.mu.Lock()
	of := t.of[space]
	if of == nil {
		of = &turn{held: make(chan struct{}, 1)}
		t.of[space] = of
	}
	of.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(t.of, space)
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
