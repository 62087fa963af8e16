package worklist

import (
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
)

// roster has the items and what they are of. It is guarded by the engine's lock.
type roster struct {
	items map[string]*Item
	kinds map[key.Resource]*kind
	// inside has, by the identity of a Namespace or CustomResourceDefinition, the items
	// in it or of it.
	inside map[string]map[*Item]struct{}
	// unseen has, of what a store had when it was loaded, what no list has shown yet as it was
	// left: until the list of its kind is complete. nil: nothing is left to be shown.
	unseen map[*Item]left
}

func newRoster() roster {
	return roster{items: map[string]*Item{}, kinds: map[key.Resource]*kind{}, inside: map[string]map[*Item]struct{}{}}
}

// item finds or makes the item of an object at its place, which the object's space has from
// then on; it returns true if its kind is new.
func (r *roster) item(o key.Object, moved string) (*Item, bool) {
	id := o.Identity.String()
	it, known := r.items[id]
	if known {
		it.spaces, it.moved = it.spaces.with(o.Space), shorten(moved)
		return it, false
	}
	k, old := r.kinds[o.Resource]
	if !old {
		k = &kind{resource: o.Resource, rank: o.Resource.Rank()}
		r.kinds[o.Resource] = k
	}
	k.items++
	it = &Item{ID: id, kind: k, spaces: packSpaces(o.Space), moved: shorten(moved)}
	if k.sight == decide.Absent {
		it.seen.existence = decide.Absent
	}
	r.items[id] = it
	for _, in := range Containers(o.Identity) {
		if r.inside[in] == nil {
			r.inside[in] = map[*Item]struct{}{}
		}
		r.inside[in][it] = struct{}{}
	}
	return it, !old
}

// remove forgets an item. It returns the items that nothing is in any more, and true if
// what is to be observed has changed.
func (r *roster) remove(it *Item) (emptied []*Item, changed bool) {
	delete(r.items, it.ID)
	r.shown(it)
	for _, in := range Containers(it.Identity()) {
		if delete(r.inside[in], it); len(r.inside[in]) > 0 {
			continue
		}
		delete(r.inside, in)
		if c, ok := r.items[in]; ok {
			emptied = append(emptied, c)
		}
	}
	it.unacted()
	it.kind.items--
	if it.kind.items > 0 {
		return emptied, false
	}
	delete(r.kinds, it.kind.resource)
	return emptied, true
}

// shown notes that an item need not be looked for any more as it was left.
func (r *roster) shown(it *Item) {
	if delete(r.unseen, it); len(r.unseen) == 0 {
		r.unseen = nil // an empty map would stay as large as it was
	}
}

// Containers are the identities of what an object is in: its Namespace, and the
// CustomResourceDefinition of its kind.
func Containers(id key.Identity) (in []string) {
	if id.Namespace != "" {
		in = append(in, key.Identity{Resource: key.Namespaces, Name: id.Namespace}.String())
	}
	if !id.Builtin() {
		in = append(in, key.Identity{Resource: key.CRDs, Name: id.Resource.Resource + "." + id.APIGroup()}.String())
	}
	return in
}

// left is a hash of an object as the agent left it.
type left uint64
