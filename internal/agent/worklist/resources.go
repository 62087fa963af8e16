package worklist

import (
	"cmp"
	"maps"
	"slices"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
)

// resources is the part of a worklist that knows the kinds to observe.
type resources struct{ *state }

// Use is what is to be observed of a kind.
type Use struct {
	kubeclient.Place
	Kind string
	// StatusRequests changes when a status is requested that no watch need show: the kind is to be
	// listed again.
	StatusRequests uint32
	// entry is the kind's entry in the worklist: an equal use of another entry begins with
	// nothing seen, so the kind is listed again.
	entry *kind
}

// Uses is what is to be observed.
func (e resources) Uses() map[key.Resource]Use {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[key.Resource]Use, len(e.kinds))
	for r, k := range e.kinds {
		if k.version != "" {
			all[r] = Use{Place: kubeclient.Place{Resource: r, Version: k.version}, Kind: k.name, StatusRequests: k.statusRequests, entry: k}
		}
	}
	return all
}

// Move has a kind observed in another version, unless it changed since from was taken.
func (e resources) Move(from Use, to kubeclient.Served) {
	e.mu.Lock()
	k := e.kinds[from.Resource]
	news := k == from.entry && k.version == from.Version
	if news {
		k.version, k.name = to.Version, to.Kind
	}
	e.mu.Unlock()
	if news {
		e.News.Raise()
	}
}

// Adopt makes items of objects of ours, so that their kind is observed, and they are
// removed if no space desires them.
func (e resources) Adopt(served kubeclient.Served, ours []key.Located) {
	if len(ours) == 0 {
		return
	}
	e.mu.Lock()
	for _, o := range ours {
		it, _ := e.item(o.Object, o.Moved)
		if k := it.kind; k.version == "" {
			k.version, k.name = served.Version, served.Kind
		}
		if !it.wanted {
			e.leaves.leaving(it, o.Space)
		}
		e.queue.push(it)
	}
	e.wake.Broadcast()
	e.mu.Unlock()
	e.News.Raise()
}

// Teach sets the version and kind in which a resource is observed, unless they are known.
func (e resources) Teach(s kubeclient.Served) {
	e.mu.Lock()
	k := e.kinds[s.Resource]
	news := k != nil && k.version == ""
	if news {
		k.version, k.name = s.Version, s.Kind
	}
	e.mu.Unlock()
	if news {
		e.News.Raise()
	}
}

// Actors are the accounts that act for objects of a kind.
type Actors struct {
	Resource key.Resource
	// Accounts are ServiceAccounts as NAMESPACE/NAME, in order; empty is the agent itself.
	Accounts []string
}

// Actors returns the kinds in use, in order, with the accounts that act for their objects.
func (e resources) Actors() []Actors {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Actors
	for r, k := range e.kinds {
		all = append(all, Actors{r, slices.Sorted(maps.Keys(k.actors))})
	}
	slices.SortFunc(all, func(a, b Actors) int {
		return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return all
}
