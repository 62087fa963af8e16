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

// link says that an object has to do with another. What links an object makes follows from
// its row and the rules of its space alone.
type link struct {
	// to is the key of the object that the link leads to: an exported one that owns a claimed
	// one, if view is empty, or a claimed one that an exported one refers to, which has a
	// value in a view.
	to, view, value string
	// by is the key of the object that makes the link.
	by string
}

func (l link) compare(o link) int {
	return cmp.Or(strings.Compare(l.to, o.to), strings.Compare(l.view, o.view), strings.Compare(l.value, o.value), strings.Compare(l.by, o.by))
}

// links are those of all objects.
type links struct{ all *btree.BTreeG[link] }

func newLinks() links {
	return links{btree.NewBTreeGOptions(func(a, b link) bool { return a.compare(b) < 0 }, btree.Options{NoLocks: true})}
}

// values are those that exported objects which refer to a claimed one have in a view, each
// once, in order: the first maxFollowed.
func (l links) values(to string, v *view) (all []string) {
	from := link{to: to, view: v.id}
	for more := true; more && len(all) < maxFollowed; {
		more = false
		l.all.Ascend(from, func(at link) bool {
			if at.to == to && at.view == v.id {
				all = append(all, at.value)
				from.value, more = at.value+"\x00", true
			}
			return false
		})
	}
	return all
}

// any says whether there is a link like another, by whichever object.
func (l links) any(like link) (found bool) {
	like.by = ""
	l.all.Ascend(like, func(at link) bool {
		found = at.to == like.to && at.view == like.view && at.value == like.value
		return false
	})
	return found
}

// owned calls fn for the keys of the claimed objects that name an exported one as owner.
func (l links) owned(owner string, fn func(k string)) {
	l.all.Ascend(link{to: owner}, func(at link) bool {
		if at.to != owner || at.view != "" {
			return false
		}
		fn(at.by)
		return true
	})
}

// relink brings the links up to date, and adds the claimed objects that follow what has
// changed to those that are looked at.
func (s *step) relink() {
	for _, l := range s.looks {
		space, resource, _, _ := key.Split(l.key)
		was, now := s.rulesBefore(space).on(resource), s.rules[space].on(resource)
		s.replace(linksOf(was, l.prev), linksOf(now, l.cur))
		if !sameValues(was, l.prev, now, l.cur) {
			s.links.owned(l.key, s.follows)
		}
	}
	var more []look // in looks they would be searched, too
	slices.Sort(s.following)
	for _, k := range slices.Compact(s.following) {
		_, looked := slices.BinarySearchFunc(s.looks, k, func(l look, k string) int { return strings.Compare(l.key, k) })
		if row := s.state.Get(k); !looked && row != nil {
			more = append(more, look{k, row, row, false})
		}
	}
	s.looks = append(s.looks, more...)
}

// follows notes a claimed object that is to be looked at.
func (s *step) follows(k string) { s.following = append(s.following, k) }

// replace replaces the links that an object makes. What it referred to, or does, is to be
// looked at if it has a value more or less by that.
func (s *step) replace(was, now []link) {
	if slices.Equal(was, now) {
		return
	}
	for _, l := range was {
		if !has(now, l) {
			if s.links.all.Delete(l); l.view != "" && !s.links.any(l) {
				s.follows(l.to)
			}
		}
	}
	for _, l := range now {
		if !has(was, l) {
			if l.view != "" && !s.links.any(l) {
				s.follows(l.to)
			}
			s.links.all.Set(l)
		}
	}
}

// has says whether there is a link among some that are in order: an object may make thousands.
func has(all []link, l link) bool {
	_, found := slices.BinarySearchFunc(all, l, link.compare)
	return found
}

// sameValues says that what an object owns need not be looked at: it is the same object, and
// has the values that it had by the same rules. What rules that are made anew are about is
// looked at anyway.
func sameValues(was []*rule, prev *table.Row, now []*rule, cur *table.Row) bool {
	switch {
	case prev == cur:
		return true
	case prev == nil || cur == nil || prev.Meta.UID != cur.Meta.UID || !slices.Equal(was, now):
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

// linksOf are the links that an object makes, in order, each once.
func linksOf(by []*rule, row *table.Row) (all []link) {
	if row == nil {
		return nil
	}
	for _, r := range by {
		switch {
		case len(r.views) == 0 || !r.has(row.Entry):
		case r.bound:
			all = append(all, r.referred(row.Entry)...)
		default:
			for owner := range r.owners(row.Entry) {
				all = append(all, link{to: owner.key, by: row.Key})
			}
		}
	}
	slices.SortFunc(all, link.compare)
	return slices.Compact(all)
}

// referred are the links to the claimed objects that an exported one names.
func (r *rule) referred(e *table.Entry) (all []link) {
	var values []link
	for _, v := range r.views {
		if value := ValueIn(v.key.Split, e); v.key.Has(value) {
			values = append(values, link{view: v.id, value: value, by: e.Key})
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

// named are the keys of the claimed objects that an exported one names, and where. Whether
// those are in namespaces is not known here: of two keys one is of no object.
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

// maxName is how long a name may be that is looked for, in bytes. Objects say anything where
// the name of another is expected, and what is looked for is kept.
const maxName = 1 << 10

// isName says whether a text can be the name of an object.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.Contains(text, "/")
}

// owner is an exported object that a claimed one may be owned by.
type owner struct{ key, uid string }

// owners are those that a claimed object names, whether or not they are there.
func (r *rule) owners(e *table.Entry) iter.Seq[owner] {
	return func(yield func(owner) bool) {
		space, _, rest, _ := key.Split(e.Key)
		namespace, _ := key.SplitName(rest)
		gjson.GetBytes(e.Value, "metadata.ownerReferences").ForEach(func(_, of gjson.Result) bool {
			group, _ := key.SplitVersion(of.Get("apiVersion").String())
			kind, ok := r.kinds[groupKind{group, of.Get("kind").String()}]
			name := of.Get("name").String()
			if !ok || !isName(name) || kind.namespaced && namespace == "" {
				return true
			}
			id := key.Identity{Resource: kind.Resource, Name: name}
			if kind.namespaced {
				id.Namespace = namespace
			}
			return yield(owner{key.Object{Space: space, Identity: id}.Key(), of.Get("uid").String()})
		})
	}
}
