package store

import (
	"sync"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

// Root is a placed object at the cluster whose associated objects are reported.
type Root struct {
	// Source is the object in its space, and Identity its identity at the cluster.
	Source   key.Object
	Identity key.Identity
	// UID is the UID of the object at the cluster.
	UID string
	// Associated are the associated kinds of its policy.
	Associated string
}

// changedRoots collects the identities of objects that may have become another Root than before, or
// no Root, in one transaction. The zero value is empty.
type changedRoots struct{ ids map[string]struct{} }

func (c *changedRoots) add(id string) {
	if c.ids == nil {
		c.ids = map[string]struct{}{}
	}
	c.ids[id] = struct{}{}
}

// RootNews collects the identities of objects that may have become another Root than before. It is
// safe for concurrent use.
type RootNews struct {
	// Signal is raised when there are such identities.
	Signal retry.Signal

	mu  sync.Mutex
	ids map[string]struct{}
}

// Take returns the identities that were collected since the last call.
func (n *RootNews) Take() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := n.ids
	n.ids = nil
	return ids
}

// add takes over a set of identities.
func (n *RootNews) add(ids map[string]struct{}) {
	if len(ids) == 0 {
		return
	}
	n.mu.Lock()
	if n.ids == nil {
		n.ids = ids
	} else {
		for id := range ids {
			n.ids[id] = struct{}{}
		}
	}
	n.mu.Unlock()
	n.Signal.Raise()
}
