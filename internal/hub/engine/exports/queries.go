package exports

import (
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Keys returns the keys by which objects of a resource of a space are sliced, each by its own
// value. For claimed objects these are labels: in slices by a field they follow other objects.
func (e *Engine) Keys(s key.Space, r key.Resource) (all []Key) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, rule := range e.rules[s].forResource(r) {
		all = append(all, rule.keys()...)
	}
	return all
}

// ExportViews returns the export views in which an object is, or would be after a write, in order. The
// objects that it follows are read from state.
func (e *Engine) ExportViews(state table.Reader, entry *table.Entry) []key.ExportView {
	s, r, _, ok := key.Split(entry.Key)
	if !ok {
		return nil
	}
	// The state may have a lock that is held during Expose, so it must not be read while mu is
	// held.
	e.mu.RLock()
	applicable, referring := e.rules[s].forResource(r), map[*view][]string{}
	for _, rule := range applicable {
		for _, v := range rule.views {
			if !rule.bound {
				referring[v] = e.links.values(entry.Key, v)
			}
		}
	}
	e.mu.RUnlock()
	return exportViewsOf(state, applicable, entry, func(v *view) []string { return referring[v] })
}

// Bindings returns the spaces that have bound an export, in order. Only bindings in effect count.
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

// BindingTo returns the spaces with bindings to any export of a space, in order, in effect or not.
func (e *Engine) BindingTo(provider key.Space) (all []key.Space) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, spaces := range e.consumers[provider] {
		all = slices.AppendSeq(all, maps.Keys(spaces))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Consumers returns the spaces that have bound the export of an export view, like Bindings.
func (e *Engine) Consumers(f key.ExportView) []key.Space {
	e.mu.RLock()
	x := e.exportOf(f)
	e.mu.RUnlock()
	if x == nil {
		return nil
	}
	return e.Bindings(x.id.space, x.id.name)
}

// Bound reports whether a space has bound the export of an export view, by a binding in effect.
func (e *Engine) Bound(f key.ExportView, s key.Space) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	return x != nil && e.consumes(s, x.id)
}

func (e *Engine) consumes(s key.Space, id exportID) bool {
	return e.rules[s] != nil && slices.ContainsFunc(e.rules[s].uses, func(u *use) bool { return u.export == id })
}

// Allowed reports whether a provider may use a verb on objects of a resource in a space: all verbs
// for exported resources, and the accepted ones for claimed resources. For key.AllSpaces it reports
// whether any space may allow it.
func (e *Engine) Allowed(f key.ExportView, s key.Space, r key.Resource, verb string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	if x == nil {
		return false
	}
	if s == key.AllSpaces {
		return x.lists(r) || x.claims(r, verb)
	}
	return slices.ContainsFunc(e.rules[s].forResource(r), func(rule *rule) bool { return rule.export == x.id && rule.allows(verb) })
}

// Shows reports whether objects of a resource of a space can be in an export view, whatever verbs
// the provider may use.
func (e *Engine) Shows(f key.ExportView, s key.Space, r key.Resource) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	return x != nil && slices.ContainsFunc(e.rules[s].forResource(r), func(rule *rule) bool { return rule.export == x.id })
}

// Resources returns the exported and the claimed resources of an export view; ok is false if the
// export, view or slice does not exist. A slice exists for a value even if no object has it yet.
func (e *Engine) Resources(f key.ExportView) (exported []v1alpha1.ExportedResource, claims []v1alpha1.APIClaim, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	x := e.exportOf(f)
	if x == nil {
		return nil, nil, false
	}
	return x.Spec.Resources, x.Spec.Claims, true
}

// exportOf returns the export of an export view; nil if the view does not exist.
func (e *Engine) exportOf(f key.ExportView) *export {
	if !f.View {
		return e.exports[exportID{f.Space, f.Name}]
	}
	rest := f
	rest.Value = ""
	v := e.views[rest]
	if v == nil || f.Value != "" && !v.key.HasSlice(f.Value) {
		return nil
	}
	return e.exports[v.export]
}
