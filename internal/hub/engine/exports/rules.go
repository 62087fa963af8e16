package exports

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/protocol/key"
)

// rules determine the objects of a space in export views. They are immutable; nil has none.
type rules struct {
	// uses are the exports that the space has bound, in order.
	uses []*use
	// byResource holds the rules for a resource, one per export, in the order of exports.
	byResource map[key.Resource][]*rule
}

// forResource returns the rules for a resource.
func (r *rules) forResource(resource key.Resource) []*rule {
	if r == nil {
		return nil
	}
	return r.byResource[resource]
}

// rule determines which objects of a resource of a space belong to an export. It is immutable.
type rule struct {
	*use
	// bound reports whether the resource is exported, so that all objects belong to the export.
	bound bool
	// claims are the claims in effect for the resource. There is at most one, since a space binds
	// an export once.
	claims []*binding.Claim
}

// use is an export as bound by a space. It is immutable.
type use struct {
	export exportID
	// views are the views of the export, by name.
	views []*view
	// kinds holds the bound resources, by kind.
	kinds map[groupKind]boundKind
	// references holds the references from bound resources.
	references map[key.Resource][]reference
}

type groupKind struct{ group, kind string }

type boundKind struct {
	key.Resource
	namespaced bool
}

// reference is a field of an exported resource that contains the name of an object of another
// resource.
type reference struct {
	path string
	to   key.Resource
}

// touch recomputes the rules of spaces.
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

// rulesOf returns the rules of a space.
func (s *step) rulesOf(space key.Space) *rules {
	uses := map[exportID][]*bound{}
	for _, name := range slices.Sorted(maps.Keys(s.bindings[space])) {
		b := s.bindings[space][name]
		if s.exports[b.export] != nil && b.in.Provided(s.state) == "" {
			uses[b.export] = append(uses[b.export], b)
		}
	}
	if len(uses) == 0 {
		return nil
	}
	all := &rules{byResource: map[key.Resource][]*rule{}}
	for _, id := range slices.SortedFunc(maps.Keys(uses), exportID.compare) {
		s.addUse(all, s.exports[id], uses[id])
	}
	return all
}

func (id exportID) compare(o exportID) int { return id.exportView().Compare(o.exportView()) }

// addUse adds the rules for the bindings to one export.
func (e *Engine) addUse(all *rules, x *export, bindings []*bound) {
	u := &use{export: x.id, kinds: map[groupKind]boundKind{}, references: map[key.Resource][]reference{}}
	for _, name := range slices.Sorted(maps.Keys(e.viewsOf[x.id])) {
		u.views = append(u.views, e.viewsOf[x.id][name])
	}
	all.uses = append(all.uses, u)
	mine := map[key.Resource]*rule{}
	get := func(r key.Resource) *rule {
		if mine[r] == nil {
			mine[r] = &rule{use: u}
			all.byResource[r] = append(all.byResource[r], mine[r])
		}
		return mine[r]
	}
	for _, b := range bindings {
		for _, resource := range b.in.Status.Resources {
			r := key.NewResource(resource.Group, resource.Resource)
			if x.lists(r) && !neverShown(r) {
				get(r).bound = true
				u.kinds[groupKind{resource.Group, resource.Kind}] = boundKind{r, resource.Namespaced}
			}
		}
	}
	for _, b := range bindings {
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

// addReferences adds the references of a claim, without duplicates.
func (u *use) addReferences(c *binding.Claim, bound map[key.Resource]*rule) {
	for _, ref := range c.ReferredBy {
		r, to := key.NewResource(ref.Group, ref.Resource), reference{ref.Path, c.Resource}
		if referrer := bound[r]; referrer == nil || !referrer.bound || slices.Contains(u.references[r], to) || !strings.HasPrefix(ref.Path, ".") {
			continue
		}
		u.references[r] = append(u.references[r], to)
	}
}

// keys returns the keys by which an object of the resource may have values of its own.
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

// allows reports whether the provider may use a verb on objects of the resource.
func (r *rule) allows(verb string) bool {
	return r.bound || slices.ContainsFunc(r.claims, func(c *binding.Claim) bool { return c.Allows(verb) })
}
