package exports

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// link is a relation between two objects. The links of an object depend only on its row and the
// rules of its space.
type link struct {
	// to is the key of the target. If view is empty, the target is an exported object that owns a
	// claimed one. Otherwise it is a claimed object to which an exported object refers that has a
	// value in the view.
	to, view, value string
	// source is the key of the object that has the link.
	source string
}

func (l link) compare(o link) int {
	return cmp.Or(strings.Compare(l.to, o.to), strings.Compare(l.view, o.view), strings.Compare(l.value, o.value), strings.Compare(l.source, o.source))
}

// links indexes the links of all objects.
type links struct{ all *btree.BTreeG[link] }

func newLinks() links {
	return links{btree.NewBTreeGOptions(func(a, b link) bool { return a.compare(b) < 0 }, btree.Options{NoLocks: true})}
}

// values returns the values in a view of the exported objects that refer to a claimed one, sorted
// and without duplicates: the first maxFollowed.
func (l links) values(to string, v *view) (all []string) {
	from := link{to: to, view: v.id}
	for more := true; more && len(all) < maxFollowed; {
		more = false
		l.all.Ascend(from, func(current link) bool {
			if current.to == to && current.view == v.id {
				all = append(all, current.value)
				from.value, more = current.value+"\x00", true
			}
			return false
		})
	}
	return all
}

// any reports whether any object has a link with the same target, view and value.
func (l links) any(like link) (found bool) {
	like.source = ""
	l.all.Ascend(like, func(current link) bool {
		found = current.to == like.to && current.view == like.view && current.value == like.value
		return false
	})
	return found
}

// owned calls fn for the keys of the claimed objects that name an exported one as owner.
func (l links) owned(owner string, fn func(k string)) {
	l.all.Ascend(link{to: owner}, func(current link) bool {
		if current.to != owner || current.view != "" {
			return false
		}
		fn(current.source)
		return true
	})
}

// relink updates the links, and adds the claimed objects that follow changed objects to the
// inspected ones.
func (s *step) relink() {
	for _, l := range s.inspected {
		space, resource, _, _ := key.Split(l.key)
		old, now := s.rulesBefore(space).forResource(resource), s.rules[space].forResource(resource)
		s.replace(linksOf(old, l.prev), linksOf(now, l.cur))
		if !sameValues(old, l.prev, now, l.cur) {
			s.links.owned(l.key, s.follows)
		}
	}
	var more []inspection // inspected must stay sorted for the search
	slices.Sort(s.following)
	for _, k := range slices.Compact(s.following) {
		_, isInspected := slices.BinarySearchFunc(s.inspected, k, func(l inspection, k string) int { return strings.Compare(l.key, k) })
		if row := s.state.Get(k); !isInspected && row != nil {
			more = append(more, inspection{k, row, row, false})
		}
	}
	s.inspected = append(s.inspected, more...)
}

// follows adds a claimed object that must be inspected.
func (s *step) follows(k string) { s.following = append(s.following, k) }

// replace replaces the links of an object. A target must be inspected if it gains or loses a value.
func (s *step) replace(old, now []link) {
	if slices.Equal(old, now) {
		return
	}
	for _, l := range old {
		if !containsLink(now, l) {
			if s.links.all.Delete(l); l.view != "" && !s.links.any(l) {
				s.follows(l.to)
			}
		}
	}
	for _, l := range now {
		if !containsLink(old, l) {
			if l.view != "" && !s.links.any(l) {
				s.follows(l.to)
			}
			s.links.all.Set(l)
		}
	}
}

// containsLink reports whether a sorted list contains a link. An object may have thousands.
func containsLink(all []link, l link) bool {
	_, found := slices.BinarySearchFunc(all, l, link.compare)
	return found
}

// sameValues reports whether the objects that an object owns need no inspection: it is the same
// object, with the same values and rules. Objects of new rules are inspected anyway.
func sameValues(old []*rule, prev *table.Row, now []*rule, cur *table.Row) bool {
	switch {
	case prev == cur:
		return true
	case prev == nil || cur == nil || prev.Meta.UID != cur.Meta.UID || !slices.Equal(old, now):
		return false
	}
	for _, r := range now {
		for _, v := range r.views {
			if r.bound && ValueIn(v.key.Split, prev.Entry) != ValueIn(v.key.Split, cur.Entry) {
				return false
			}
		}
	}
	return true
}

// linksOf returns the links of an object, sorted and without duplicates.
func linksOf(applicable []*rule, row *table.Row) (all []link) {
	if row == nil {
		return nil
	}
	for _, r := range applicable {
		switch {
		case len(r.views) == 0 || !r.selects(row.Entry):
		case r.bound:
			all = append(all, r.referred(row.Entry)...)
		default:
			for owner := range r.owners(row.Entry) {
				all = append(all, link{to: owner.key, source: row.Key})
			}
		}
	}
	slices.SortFunc(all, link.compare)
	return slices.Compact(all)
}

// referred returns the links to the claimed objects that an exported one names.
func (r *rule) referred(e *table.Entry) (all []link) {
	var values []link
	for _, v := range r.views {
		if value := ValueIn(v.key.Split, e); v.key.HasSlice(value) {
			values = append(values, link{view: v.id, value: value, source: e.Key})
		}
	}
	if len(values) == 0 {
		return nil
	}
	for to := range r.named(e) {
		for _, l := range values {
			l.to = to
			all = append(all, l)
		}
	}
	return all
}

// named yields the keys of the claimed objects that an exported one names, with the fields. It does
// not know whether these are namespaced, so it yields both possible keys.
func (r *rule) named(e *table.Entry) iter.Seq2[string, Reference] {
	return func(yield func(string, Reference) bool) {
		space, resource, rest, _ := key.Split(e.Key)
		namespace, _ := key.SplitName(rest)
		for _, ref := range r.references[resource] {
			name := field(e, ref.path)
			if !isName(name) {
				continue
			}
			to := key.Object{Space: space, Identity: key.Identity{Resource: ref.to, Name: name}}
			if !yield(to.Key(), Reference{ref.path, name}) {
				return
			}
			if to.Namespace = namespace; namespace != "" && !yield(to.Key(), Reference{ref.path, name}) {
				return
			}
		}
	}
}

// maxName bounds the length of a name, in bytes. The fields may contain any text, and names are
// stored in the index.
const maxName = 1 << 10

// isName reports whether a text can be the name of an object.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.Contains(text, "/")
}

// owner is an exported object that may own a claimed one.
type owner struct{ key, uid string }

// owners yields the owners that a claimed object names, whether they exist or not.
func (r *rule) owners(e *table.Entry) iter.Seq[owner] {
	return func(yield func(owner) bool) {
		space, _, rest, _ := key.Split(e.Key)
		namespace, _ := key.SplitName(rest)
		gjson.GetBytes(e.Value, "metadata.ownerReferences").ForEach(func(_, reference gjson.Result) bool {
			group, _ := key.SplitVersion(reference.Get("apiVersion").String())
			kind, ok := r.kinds[groupKind{group, reference.Get("kind").String()}]
			name := reference.Get("name").String()
			if !ok || !isName(name) || kind.namespaced && namespace == "" {
				return true
			}
			id := key.Identity{Resource: kind.Resource, Name: name}
			if kind.namespaced {
				id.Namespace = namespace
			}
			return yield(owner{key.Object{Space: space, Identity: id}.Key(), reference.Get("uid").String()})
		})
	}
}
