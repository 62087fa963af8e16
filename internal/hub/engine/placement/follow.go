package placement

import (
	"cmp"
	"slices"
	"unique"

	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// following is how one Placement has follow what an object refers to. Objects that are
// followed alike share one.
type following struct {
	placement key.PlacementRef
	policy    wire.Policy
	suspended bool
	// waits says that the deletion of what follows waits for removal. What follows from
	// another space does not.
	waits bool
	// locations are those that the object gets by the Placement and that admit it.
	locations *locationSet
	kinds     refs.Kinds
	// consumer is the space of the objects that are followed, if it is another one: its
	// definition of what they are is that of a provider. locations then also admit that, and
	// need the ServiceAccounts that act for it.
	consumer key.Space
}

func compareFollowing(a, b following) int {
	return cmp.Or(cmp.Compare(a.placement, b.placement), cmp.Compare(policyBits(a.policy), policyBits(b.policy)),
		cmp.Compare(bit(a.suspended), bit(b.suspended)), cmp.Compare(bit(a.waits), bit(b.waits)), cmp.Compare(a.kinds, b.kinds), cmp.Compare(a.consumer, b.consumer), cmp.Compare(a.locations.id, b.locations.id))
}

// references has, of the objects that are followed, what they refer to, whether or not it
// exists. References lead from an object to another in its space, or to the CRD of what the
// space has bound in its provider's.
type references struct {
	from map[key.Object]*referrer
	// to has for each object that is referred to how it follows, and how many objects it
	// follows so: one ServiceAccount or pull secret may be that of thousands.
	to map[key.Object]followings
}

// followings are the ways in which an object follows others, each with how many it follows so. Most
// objects that are referred to follow in one way, for which there is no map: users choose how many names
// an object refers to.
type followings struct {
	only unique.Handle[following]
	n    int // 0: there is none, or more
	more map[unique.Handle[following]]int
}

// all yields each way and how many objects are followed so.
func (fs followings) all(yield func(following, int) bool) {
	if fs.n != 0 {
		yield(fs.only.Value(), fs.n)
	}
	for one, n := range fs.more {
		if !yield(one.Value(), n) {
			return
		}
	}
}

// add takes over the ways and adds to the number of one. It returns that number before and after.
func (fs followings) add(way following, n int) (now followings, before, after int) {
	one := unique.Make(way)
	switch {
	case fs.more == nil && (fs.n == 0 || fs.only == one):
		now, before = followings{one, fs.n + n, nil}, fs.n
	case fs.more == nil:
		now = followings{more: map[unique.Handle[following]]int{fs.only: fs.n, one: n}}
	default:
		now, before = fs, fs.more[one]
		if now.more[one] = before + n; now.more[one] == 0 {
			delete(now.more, one)
		}
		if len(now.more) == 1 {
			for left, n := range now.more {
				now = followings{left, n, nil}
			}
		}
	}
	return now, before, before + n
}

func (fs followings) isEmpty() bool { return fs.n == 0 && len(fs.more) == 0 }

// referrer is an object that is followed.
type referrer struct {
	// entry is what refers was read from.
	entry  *table.Entry
	refers []key.Identity
	// home is the space of what it refers to.
	home key.Space
	by   []following // in order, each once
}

func newReferences() references {
	return references{from: map[key.Object]*referrer{}, to: map[key.Object]followings{}}
}

// set notes how an object is followed, and calls moved for what from then on follows
// otherwise. What the object refers to, which is in the space home, is read once for each of
// its entries. row is nil if it is gone.
func (rs *references) set(o key.Object, home key.Space, row *table.Row, by []following, moved func(key.Object)) {
	was := rs.from[o]
	if was == nil && (len(by) == 0 || !refs.Can(o.Resource)) {
		return
	}
	if was == nil {
		was = &referrer{}
	}
	now := &referrer{}
	switch {
	case row == nil || len(by) == 0:
		delete(rs.from, o)
	case was.entry == row.Entry:
		now = &referrer{row.Entry, was.refers, home, by}
	default:
		now = &referrer{row.Entry, refs.Of(o.Identity, row.Value), home, by}
	}
	if now.entry != nil {
		rs.from[o] = now
	}
	if was.home == now.home && slices.Equal(was.by, now.by) && slices.Equal(was.refers, now.refers) {
		return
	}
	type link struct {
		to key.Object
		by following
	}
	change := map[link]int{}
	count := func(r *referrer, n int) {
		for _, id := range r.refers {
			for _, f := range r.by {
				if f.kinds.Has(id.Resource) {
					change[link{key.Object{Space: r.home, Identity: id}, f}] += n
				}
			}
		}
	}
	count(was, -1)
	count(now, 1)
	for l, n := range change {
		if n != 0 && rs.add(l.to, l.by, n) {
			moved(l.to)
		}
	}
}

// add adds to the number of objects that another follows in one way, and says whether it
// begins or ceases to follow so.
func (rs *references) add(to key.Object, by following, n int) (moved bool) {
	all, before, after := rs.to[to].add(by, n)
	if rs.to[to] = all; all.isEmpty() {
		delete(rs.to, to)
	}
	return (before == 0) != (after == 0)
}

// of is how an object follows those that refer to it, in order.
func (rs *references) of(o key.Object) []following {
	var all []following
	for f := range rs.to[o].all {
		all = append(all, f)
	}
	slices.SortFunc(all, compareFollowing)
	return all
}

// parts are how a placement treats an object: where it matches it, and where the object
// follows others by it, behind being all that the object follows. follows is how what the
// object refers to follows it in turn, by this placement, but not where it yields.
func (e *Engine) parts(p *placement, s subject, behind []following, yields []key.Location) (parts []part, follows []following) {
	m, matched := p.matches(s)
	if matched {
		seats := p.seats(s, e.locations, &e.sets)
		parts = []part{{m.policy, m.returns, seats}}
		if m.follows != 0 {
			m.policy.Associated = ""
			follows = append(follows, following{placement: p.ref, policy: m.policy, suspended: p.suspended, waits: p.waits, locations: e.admitted(s, seats, yields), kinds: m.follows})
		}
	}
	for _, f := range behind {
		if f.placement != p.ref || f.consumer != "" {
			continue
		}
		treated := f.policy
		if !matched && s.Resource == refs.Claims.Resource() {
			treated.Orphan = true // its data would go with it, and nobody has deleted that
		}
		parts = e.addPart(parts, treated, f.locations)
		f.locations = e.admitted(s, f.locations, yields)
		follows = append(follows, f)
	}
	slices.SortFunc(follows, compareFollowing)
	return parts, slices.Compact(follows)
}

// followReadmitted has what follows others to locations whose terms have changed evaluated
// again: whether they admit it says nothing about what it follows, which goes there as before.
func (s *step) followReadmitted() {
	if len(s.readmitted) == 0 {
		return
	}
	for o, all := range s.references.to {
		for f := range all.all {
			if slices.ContainsFunc(f.locations.names, func(l key.Location) bool { return s.readmitted[l] }) {
				s.moved[o] = struct{}{}
			}
		}
	}
}

// admitted are those of some locations that admit an object, which does not yield there.
func (e *Engine) admitted(s subject, all *locationSet, yields []key.Location) *locationSet {
	admitted, refused := e.gates.gate(s.state, s.Object).split(all.names)
	if admitted = apart(admitted, yields); refused == nil && len(admitted) == len(all.names) {
		return all
	}
	return e.sets.of(admitted, nil)
}
