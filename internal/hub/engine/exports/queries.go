package exports

import (
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Keys are those by which objects of a resource of a space are sliced, each by its own value.
// Of claimed objects these are labels: in slices by a field they follow others.
func (e *Engine) Keys(s key.Space, r key.Resource) (all []Key) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, rule := range e.rules[s].on(r) {
		all = append(all, rule.keys()...)
	}
	return all
}

// On are the shelves that an object is on, or would be if it were written like this: in order.
// What it follows is read in the state that is given.
func (e *Engine) On(state table.Reader, of *table.Entry) []key.Shelf {
	s, r, _, ok := key.Split(of.Key)
	if !ok {
		return nil
	}
	// The state may have a lock that Show is called under, so it is not read under ours.
	e.mu.RLock()
	by, referring := e.rules[s].on(r), map[*view][]string{}
	for _, rule := range by {
		for _, v := range rule.views {
			if !rule.bound {
				referring[v] = e.links.values(of.Key, v)
			}
		}
	}
	e.mu.RUnlock()
	return shelves(state, by, of, func(v *view) []string { return referring[v] })
}

// Bindings are the spaces that have bound an export, in order, as far as their bindings are
// in force.
func (e *Engine) Bindings(provider key.Space, name string) (all []key.Space) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	id := exportID{provider, name}
	for _, s := range slices.Sorted(maps.Keys(e.consumers[provider][name])) {
		if e.consumes(s, id) {
			all = append(all, s)
		}
	}
	return all
}

// BindingTo are the spaces that have bindings to what a space exports, or would, in force or
// not: in order.
func (e *Engine) BindingTo(provider key.Space) (all []key.Space) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, spaces := range e.consumers[provider] {
		all = slices.AppendSeq(all, maps.Keys(spaces))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Consumers are the spaces that have bound what a shelf shows, as Bindings has them.
func (e *Engine) Consumers(f key.Shelf) []key.Space {
	e.mu.RLock()
	x := e.exportOf(f)
	e.mu.RUnlock()
	if x == nil {
		return nil
	}
	return e.Bindings(x.id.space, x.id.name)
}

// Bound says whether a space has bound what a shelf shows, by a binding in force.
func (e *Engine) Bound(f key.Shelf, s key.Space) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	return x != nil && e.consumes(s, x.id)
}

func (e *Engine) consumes(s key.Space, id exportID) bool {
	return e.rules[s] != nil && slices.ContainsFunc(e.rules[s].uses, func(u *use) bool { return u.of == id })
}

// Allowed says whether a provider may do something with objects of a resource in a space: all
// with what is exported, what is accepted with what is claimed. For key.AllSpaces it says
// whether any space may have it so.
func (e *Engine) Allowed(f key.Shelf, s key.Space, r key.Resource, verb string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	if x == nil {
		return false
	}
	if s == key.AllSpaces {
		return x.lists(r) || x.claims(r, verb)
	}
	return slices.ContainsFunc(e.rules[s].on(r), func(rule *rule) bool { return rule.of == x.id && rule.allows(verb) })
}

// Shows says whether a space has objects of a resource on a shelf, or may have, whatever the
// provider may do with them.
func (e *Engine) Shows(f key.Shelf, s key.Space, r key.Resource) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	return x != nil && slices.ContainsFunc(e.rules[s].on(r), func(rule *rule) bool { return rule.of == x.id })
}

// Resources are what a shelf shows objects of; ok is false if there is no such export, view
// or slice. Values that no object has yet have slices, too.
func (e *Engine) Resources(f key.Shelf) (exported []v1alpha1.ExportedResource, claims []v1alpha1.APIClaim, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	if x == nil {
		return nil, nil, false
	}
	return x.Spec.Resources, x.Spec.Claims, true
}

// exportOf is the export that a shelf shows, or part of it; nil if there is no such shelf.
func (e *Engine) exportOf(f key.Shelf) *export {
	if !f.View {
		return e.exports[exportID{f.Space, f.Name}]
	}
	rest := f
	rest.Value = ""
	v := e.views[rest]
	if v == nil || f.Value != "" && !v.key.Has(f.Value) {
		return nil
	}
	return e.exports[v.of]
}
