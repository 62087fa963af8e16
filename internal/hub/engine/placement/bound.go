package placement

import (
	"maps"
	"slices"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// bound has, of the spaces with APIBindings, where the definitions are of what they have
// bound: in the spaces of providers.
type bound struct {
	// in has the provider of each resource that a space has bound; it is empty if that is
	// not there any more, and nothing defines the resource.
	in map[key.Space]map[key.Resource]key.Space
	// of has the spaces with bindings of a provider's exports.
	of map[key.Space]map[key.Space]struct{}
	// to has the providers of which a space has bound exports.
	to map[key.Space][]key.Space
}

func newBound() bound {
	return bound{map[key.Space]map[key.Resource]key.Space{}, map[key.Space]map[key.Space]struct{}{}, map[key.Space][]key.Space{}}
}

// is says whether a space has bound a resource.
func (b *bound) is(s key.Space, r key.Resource) bool {
	_, is := b.in[s][r]
	return is
}

// home is the space that has the definition of a resource of a space; false: none has.
func (b *bound) home(s key.Space, r key.Resource) (key.Space, bool) {
	provider, is := b.in[s][r]
	if !is {
		return s, true
	}
	return provider, provider != ""
}

// set reads the bindings of a space again, and calls moved for the resources that are
// defined elsewhere than before.
func (b *bound) set(state table.Reader, s key.Space, moved func(key.Resource)) {
	var providers []key.Space
	now := map[key.Resource]key.Space{}
	for _, of := range binding.Of(state, s) {
		providers = append(providers, of.Provider())
		provider := of.Provider()
		if of.Provided(state) != "" {
			provider = ""
		}
		for _, r := range of.Status.Resources {
			r := key.NewResource(r.Group, r.Resource)
			if _, is := now[r]; !is {
				now[r] = provider
			}
		}
	}
	slices.Sort(providers)
	b.note(s, slices.Compact(providers))
	was := b.in[s]
	if b.in[s] = now; len(now) == 0 {
		delete(b.in, s)
	}
	for r, provider := range now {
		if of, is := was[r]; !is || of != provider {
			moved(r)
		}
	}
	for r := range was {
		if _, is := now[r]; !is {
			moved(r)
		}
	}
}

// note notes of which providers a space has bound exports.
func (b *bound) note(s key.Space, providers []key.Space) {
	for _, p := range b.to[s] {
		if delete(b.of[p], s); len(b.of[p]) == 0 {
			delete(b.of, p)
		}
	}
	if b.to[s] = providers; len(providers) == 0 {
		delete(b.to, s)
	}
	for _, p := range providers {
		if b.of[p] == nil {
			b.of[p] = map[key.Space]struct{}{}
		}
		b.of[p][s] = struct{}{}
	}
}

// updateBound reads the bindings again that have changed, or of which the provider's space
// has, and has the objects evaluated again of which the definition is elsewhere than before.
func (s *step) updateBound() {
	again := map[key.Space]struct{}{}
	for _, c := range s.bindings {
		again[c.Space] = struct{}{}
	}
	for _, c := range s.spaces {
		if c.Prev == nil || c.Cur == nil || c.Prev.Meta.UID != c.Cur.Meta.UID || c.Prev.Meta.Deleting != c.Cur.Meta.Deleting {
			maps.Copy(again, s.bound.of[key.Space(c.Name)])
		}
	}
	for space := range again {
		s.bound.set(s.state, space, func(r key.Resource) { s.reaches(reach{prefix: key.ResourcePrefix(space, r)}) })
	}
}
