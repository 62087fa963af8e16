package agent

import (
	"sync/atomic"

	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/store"
)

// lasting is what the Lease that names the agent's store goes by.
type lasting struct {
	store *store.Store
	// aged is set when the store is older than the target.
	aged *atomic.Bool
	// record changes the store, as often as it takes.
	record func(do func(*store.Tx), done func())
}

// state is the state of the store as the Lease is to have it.
func (l lasting) state() fencing.Copy {
	m := l.store.Meta()
	return fencing.Copy{ID: m.Life, Moves: m.Moves}
}

// former is the state of a store that the Lease named before this one was used; nil: that has yet to be found
// out. A store that is trusted has been used.
func (l lasting) former() *fencing.Copy {
	m := l.store.Meta()
	switch {
	case m.Replaces != nil:
		return new(fencing.Copy(*m.Replaces))
	case m.Fresh:
		return nil
	}
	return &fencing.Copy{} // an agent of before kept none
}

// found keeps which state of a store the Lease named before this one was used.
func (l lasting) found(named fencing.Copy) {
	l.record(func(t *store.Tx) { store.Replace(t, store.State(named)) }, func() {})
}

// isSound reports whether the store has all that was done by it: it is no older copy, and no other agent acts.
func (l lasting) isSound() bool {
	m := l.store.Meta()
	return !l.aged.Load() && m.Newer == "" && m.Superseded == ""
}
