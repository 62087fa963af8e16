package exports

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/protocol/key"
)

// rules say what is shown of a space. They are immutable; nil are none.
type rules struct {
	// uses are of the exports that are bound, in order.
	uses []*use
	// of are by resource, in the order of exports, one for each.
	of map[key.Resource][]*rule
}

// on are the rules for a resource.
func (r *rules) on(resource key.Resource) []*rule {
	if r == nil {
		return nil
	}
	return r.of[resource]
}

// rule is what an export has of a resource of a space. It is immutable.
type rule struct {
	*use
	// bound says that all objects are the export's.
	bound bool
	// claims are those in force for the resource: one, since a space binds an export once.
	claims []*binding.Claim
}

// use is what an export has of a space. It is immutable.
type use struct {
	of exportID
	// views are those of the export, by name.
	views []*view
	// resources are those that are bound, by kind.
	kinds map[groupKind]boundKind
	// references are those of the resources that are bound.
	references map[key.Resource][]reference
}

type groupKind struct{ group, kind string }

type boundKind struct {
	key.Resource
	namespaced bool
}

// reference is a field of an exported resource that has the name of an object of another.
type reference struct {
	path string
	to   key.Resource
}

// touch makes the rules of spaces anew.
func (s *step) touch(all map[spaceExport]struct{}) {
	s.touched = all
	for t := range all {
		if _, done := s.before[t.space]; done {
			continue
		}
		s.before[t.space] = s.rules[t.space]
		if now := s.rulesOf(t.space); now != nil {
			s.rules[t.space] = now
		} else {
			delete(s.rules, t.space)
		}
	}
}

// rulesOf are the rules of a space.
func (s *step) rulesOf(space key.Space) *rules {
	uses := map[exportID][]*bound{}
	for _, name := range slices.Sorted(maps.Keys(s.bindings[space])) {
		b := s.bindings[space][name]
		if s.exports[b.of] != nil && b.in.Provided(s.state) == "" {
			uses[b.of] = append(uses[b.of], b)
		}
	}
	if len(uses) == 0 {
		return nil
	}
	all := &rules{of: map[key.Resource][]*rule{}}
	for _, id := range slices.SortedFunc(maps.Keys(uses), exportID.compare) {
		s.addUse(all, s.exports[id], uses[id])
	}
	return all
}

func (id exportID) compare(o exportID) int { return id.shelf().Compare(o.shelf()) }

// addUse adds the rules by the bindings to one export.
func (e *Engine) addUse(all *rules, x *export, by []*bound) {
	u := &use{of: x.id, kinds: map[groupKind]boundKind{}, references: map[key.Resource][]reference{}}
	for _, name := range slices.Sorted(maps.Keys(e.viewsOf[x.id])) {
		u.views = append(u.views, e.viewsOf[x.id][name])
	}
	all.uses = append(all.uses, u)
	mine := map[key.Resource]*rule{}
	get := func(r key.Resource) *rule {
		if mine[r] == nil {
			mine[r] = &rule{use: u}
			all.of[r] = append(all.of[r], mine[r])
		}
		return mine[r]
	}
	for _, b := range by {
		for _, of := range b.in.Status.Resources {
			r := key.NewResource(of.Group, of.Resource)
			if x.lists(r) && !neverShown(r) {
				get(r).bound = true
				u.kinds[groupKind{of.Group, of.Kind}] = boundKind{r, of.Namespaced}
			}
		}
	}
	for _, b := range by {
		for _, c := range b.in.Claims(&x.APIExport) {
			if neverShown(c.Resource) {
				continue
			}
			claimed := get(c.Resource)
			claimed.claims = append(claimed.claims, &c)
			u.addReferences(&c, mine)
		}
	}
}

// addReferences adds those of a claim, each once.
func (u *use) addReferences(c *binding.Claim, bound map[key.Resource]*rule) {
	for _, by := range c.ReferredBy {
		r, to := key.NewResource(by.Group, by.Resource), reference{by.Path, c.Resource}
		if of := bound[r]; of == nil || !of.bound || slices.Contains(u.references[r], to) || !strings.HasPrefix(by.Path, ".") {
			continue
		}
		u.references[r] = append(u.references[r], to)
	}
}

// keys are those that an object of the resource may have values of by itself.
func (r *rule) keys() (all []Key) {
	for _, v := range r.views {
		if r.bound {
			all = append(all, v.key)
			continue
		}
		for _, c := range r.claims {
			if v.key.Field {
				break // claimed objects follow
			}
			k := v.key
			k.Claim = c
			all = append(all, k)
		}
	}
	return all
}

// allows says whether the provider may do something with objects of the resource.
func (r *rule) allows(verb string) bool {
	return r.bound || slices.ContainsFunc(r.claims, func(c *binding.Claim) bool { return c.Allows(verb) })
}
