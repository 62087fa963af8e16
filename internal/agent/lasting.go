package agent

import (
	"sync/atomic"

	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/store"
)

// lasting provides the state of the store to the Lease that names it.
type lasting struct {
	store *store.Store
	// aged is set when the store is older than the target.
	aged *atomic.Bool
	// record changes the store, and retries until that succeeds.
	record func(do func(*store.Tx), done func())
}

// state returns the state of the store that the Lease should have.
func (l lasting) state() fencing.Copy {
	m := l.store.Meta()
	return fencing.Copy{ID: m.Life, Moves: m.Moves}
}

// former returns the state of the store that the Lease named before this store was used; nil if it is not known
// yet. A trusted store has been used.
func (l lasting) former() *fencing.Copy {
	m := l.store.Meta()
	switch {
	case m.Replaces != nil:
		return new(fencing.Copy(*m.Replaces))
	case m.Fresh:
		return nil
	}
	return &fencing.Copy{} // written by an agent of an older version
}

// found records the state of the store that the Lease named before this store was used.
func (l lasting) found(named fencing.Copy) {
	l.record(func(t *store.Tx) { t.Target.SetReplaces(store.State(named)) }, func() {})
}

// isSound reports whether the store is current: it is no older copy, and no other agent acts.
func (l lasting) isSound() bool {
	m := l.store.Meta()
	return !l.aged.Load() && m.Newer == "" && m.Superseded == ""
}
