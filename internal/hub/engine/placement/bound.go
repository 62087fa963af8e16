package placement

import (
	"maps"
	"slices"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// bound indexes APIBindings. The definition of a bound resource is in the space of its provider.
type bound struct {
	// providers holds the provider of each bound resource of a space. It is empty if the provider
	// no longer exists, so that the resource has no definition.
	providers map[key.Space]map[key.Resource]key.Space
	// consumers holds, for a provider, the spaces with bindings of its exports.
	consumers map[key.Space]map[key.Space]struct{}
	// providersOf is the inverse of consumers.
	providersOf map[key.Space][]key.Space
}

func newBound() bound {
	return bound{map[key.Space]map[key.Resource]key.Space{}, map[key.Space]map[key.Space]struct{}{}, map[key.Space][]key.Space{}}
}

// isBound reports whether a space has bound a resource.
func (b *bound) isBound(s key.Space, r key.Resource) bool {
	_, is := b.providers[s][r]
	return is
}

// home returns the space that contains the definition of a resource; false if there is none.
func (b *bound) home(s key.Space, r key.Resource) (key.Space, bool) {
	provider, is := b.providers[s][r]
	if !is {
		return s, true
	}
	return provider, provider != ""
}

// set reads the bindings of a space again. It calls moved for each resource whose definition is now
// in another space.
func (b *bound) set(state table.Reader, s key.Space, moved func(key.Resource)) {
	var providers []key.Space
	now := map[key.Resource]key.Space{}
	for _, apiBinding := range binding.InSpace(state, s) {
		providers = append(providers, apiBinding.Provider())
		provider := apiBinding.Provider()
		if apiBinding.Provided(state) != "" {
			provider = ""
		}
		for _, r := range apiBinding.Status.Resources {
			r := key.NewResource(r.Group, r.Resource)
			if _, is := now[r]; !is {
				now[r] = provider
			}
		}
	}
	slices.Sort(providers)
	b.setProviders(s, slices.Compact(providers))
	old := b.providers[s]
	if b.providers[s] = now; len(now) == 0 {
		delete(b.providers, s)
	}
	for r, provider := range now {
		if previous, is := old[r]; !is || previous != provider {
			moved(r)
		}
	}
	for r := range old {
		if _, is := now[r]; !is {
			moved(r)
		}
	}
}

// setProviders records the providers whose exports a space has bound.
func (b *bound) setProviders(s key.Space, providers []key.Space) {
	for _, p := range b.providersOf[s] {
		if delete(b.consumers[p], s); len(b.consumers[p]) == 0 {
			delete(b.consumers, p)
		}
	}
	if b.providersOf[s] = providers; len(providers) == 0 {
		delete(b.providersOf, s)
	}
	for _, p := range providers {
		if b.consumers[p] == nil {
			b.consumers[p] = map[key.Space]struct{}{}
		}
		b.consumers[p][s] = struct{}{}
	}
}

// updateBound reads bindings again that have changed or whose provider's space has changed. It
// schedules the evaluation of the objects whose definition is now in another space.
func (s *step) updateBound() {
	again := map[key.Space]struct{}{}
	for _, c := range s.bindings {
		again[c.Space] = struct{}{}
	}
	for _, c := range s.spaces {
		if c.Prev == nil || c.Cur == nil || c.Prev.Meta.UID != c.Cur.Meta.UID || c.Prev.Meta.Deleting != c.Cur.Meta.Deleting {
			maps.Copy(again, s.bound.consumers[key.Space(c.Name)])
		}
	}
	for space := range again {
		s.bound.set(s.state, space, func(r key.Resource) { s.reaches(reach{prefix: key.ResourcePrefix(space, r)}) })
	}
}
