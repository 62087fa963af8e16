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

// following describes how references follow objects by one Placement. Objects that are followed in
// the same way share one.
type following struct {
	placement key.PlacementRef
	policy    wire.Policy
	suspended bool
	// waits reports whether the deletion of a following object waits for its removal at the
	// locations. It is false for an object of another space.
	waits bool
	// locations are the locations that the followed object gets by the Placement and that admit it.
	locations *locationSet
	kinds     refs.Kinds
	// consumer is the space of the followed objects, if that has bound their resource from a
	// provider. Then the CRD of the provider follows, and locations are those that also admit the
	// CRD for the consumer. Their needs are the ServiceAccounts that act for it.
	consumer key.Space
}

func compareFollowing(a, b following) int {
	return cmp.Or(cmp.Compare(a.placement, b.placement), cmp.Compare(policyBits(a.policy), policyBits(b.policy)),
		cmp.Compare(bit(a.suspended), bit(b.suspended)), cmp.Compare(bit(a.waits), bit(b.waits)), cmp.Compare(a.kinds, b.kinds), cmp.Compare(a.consumer, b.consumer), cmp.Compare(a.locations.id, b.locations.id))
}

// references indexes the references of followed objects, whether or not their targets exist. A
// reference leads to an object in the same space, or from a bound object to its CRD in the
// provider's space.
type references struct {
	from map[key.Object]*referrer
	// to holds, for each target, how it follows and how many objects it follows in each way:
	// thousands of objects may refer to one ServiceAccount or pull secret.
	to map[key.Object]followings
	// prepared has references that were read before the table was locked.
	prepared table.Prepared[[]key.Identity]
}

// followings counts, for one target, how many objects it follows in each way. Most targets follow
// in one way; they need no map, since users choose how many names an object refers to.
type followings struct {
	only unique.Handle[following]
	n    int // 0: there is none, or more is used
	more map[unique.Handle[following]]int
}

// all yields each way and its count.
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

// add returns the ways with n added to the count of one, and that count before and after.
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

// referrer is an object with followed references.
type referrer struct {
	// entry is the value from which refers was read.
	entry  *table.Entry
	refers []key.Identity
	// home is the space of the references.
	home       key.Space
	followings []following // in order, each once
}

func newReferences() references {
	return references{from: map[key.Object]*referrer{}, to: map[key.Object]followings{}, prepared: table.Prepared[[]key.Identity]{}}
}

// set records how the references of an object follow it, and calls moved for each target whose
// followings change. The references are in the space home. They are read once for each entry of the
// object. row is nil if the object does not exist.
func (rs *references) set(o key.Object, home key.Space, row *table.Row, followings []following, moved func(key.Object)) {
	old := rs.from[o]
	if old == nil && (len(followings) == 0 || !refs.Can(o.Resource)) {
		return
	}
	if old == nil {
		old = &referrer{}
	}
	now := &referrer{}
	switch {
	case row == nil || len(followings) == 0:
		delete(rs.from, o)
	case old.entry == row.Entry:
		now = &referrer{row.Entry, old.refers, home, followings}
	default:
		refers := rs.prepared.Take(row, func() []key.Identity { return refs.References(o.Identity, row.Value) })
		now = &referrer{row.Entry, refers, home, followings}
	}
	if now.entry != nil {
		rs.from[o] = now
	}
	if old.home == now.home && slices.Equal(old.followings, now.followings) && slices.Equal(old.refers, now.refers) {
		return
	}
	type link struct {
		to        key.Object
		following following
	}
	change := map[link]int{}
	count := func(r *referrer, n int) {
		for _, id := range r.refers {
			for _, f := range r.followings {
				if f.kinds.Contains(id.Resource) {
					change[link{key.Object{Space: r.home, Identity: id}, f}] += n
				}
			}
		}
	}
	count(old, -1)
	count(now, 1)
	for l, n := range change {
		if n != 0 && rs.add(l.to, l.following, n) {
			moved(l.to)
		}
	}
}

// prepareReferences reads the references of a changed object before the table is locked, if a Placement of its space
// may have them follow. Those of a large object are read in any case: a Placement may begin to in the same revision.
func prepareReferences(e *Engine, o key.Object, row *table.Row) {
	if row != nil && o.Resource.Builtin() && refs.Can(o.Resource) && (len(row.Value) >= minPreparedReferences || hasFollowers(e, o.Space)) {
		e.references.prepared[row.Entry] = refs.References(o.Identity, row.Value)
	}
}

// hasFollowers reports whether references follow any objects of a space.
func hasFollowers(e *Engine, space key.Space) bool {
	for p := range e.placing(space) {
		if slices.ContainsFunc(p.tests, func(t objectTest) bool { return t.follows != 0 }) {
			return true
		}
	}
	return false
}

// minPreparedReferences is the size in bytes of an object whose references are always read before the table is
// locked. Reading takes some 10 ns for each byte.
const minPreparedReferences = 16 << 10

// prepare reads the references of the objects of a space that begin to be followed by a Placement, before the table
// is locked.
func (rs *references) prepare(state table.NextState, space key.Space, p *placement) {
	for i := range p.tests {
		t := &p.tests[i]
		if t.follows == 0 {
			continue
		}
		t.reach(space, "", func(r reach) {
			state.AscendPrevious(r.prefix, func(row *table.Row) bool {
				o, err := key.ParseObject(row.Key)
				if err != nil || !o.Resource.Builtin() || !refs.Can(o.Resource) || r.namespace != "" && o.Namespace != r.namespace {
					return true
				}
				if old := rs.from[o]; (old == nil || old.entry != row.Entry) && t.fit(subject{o, row, nextReader{state}, nil}) {
					rs.prepared[row.Entry] = refs.References(o.Identity, row.Value)
				}
				return true
			})
		})
	}
}

// nextReader reads a NextState as a Reader, of which Ascend shows the rows before the revision.
type nextReader struct{ table.NextState }

// Ascend implements table.Reader.
func (r nextReader) Ascend(prefix string, fn func(*table.Row) bool) { r.AscendPrevious(prefix, fn) }

// add adds to the number of objects that a target follows in one way. It reports whether that
// number becomes, or ceases to be, zero.
func (rs *references) add(to key.Object, following following, n int) (moved bool) {
	all, before, after := rs.to[to].add(following, n)
	if rs.to[to] = all; all.isEmpty() {
		delete(rs.to, to)
	}
	return (before == 0) != (after == 0)
}

// followingsOf returns how an object follows those that refer to it, in order.
func (rs *references) followingsOf(o key.Object) []following {
	var all []following
	for f := range rs.to[o].all {
		all = append(all, f)
	}
	slices.SortFunc(all, compareFollowing)
	return all
}

// evaluatePlacement returns the policies of a placement for an object at its locations: where the
// placement matches the object, and where the object follows others by it. behind is all that the
// object follows. follows describes how the references of the object follow it in turn by this
// placement, except at the locations in yields.
func (e *Engine) evaluatePlacement(p *placement, s subject, behind []following, yields []key.Location) (policies []locationPolicy, follows []following) {
	m, matched := p.matches(s)
	if matched {
		scheduled := p.scheduled(s, e.locations, &e.sets)
		policies = []locationPolicy{{m.policy, m.returns, scheduled}}
		if m.follows != 0 {
			m.policy.Associated = ""
			follows = append(follows, following{placement: p.ref, policy: m.policy, suspended: p.suspended, waits: p.waits, locations: e.admitted(s, scheduled, yields), kinds: m.follows})
		}
	}
	for _, f := range behind {
		if f.placement != p.ref || f.consumer != "" {
			continue
		}
		treated := f.policy
		if !matched && s.Resource == refs.Claims.Resource() {
			treated.Orphan = true // otherwise its data is deleted, too, which no user has requested
		}
		policies = e.addLocationPolicy(policies, treated, f.locations)
		f.locations = e.admitted(s, f.locations, yields)
		follows = append(follows, f)
	}
	slices.SortFunc(follows, compareFollowing)
	return policies, slices.Compact(follows)
}

// followReadmitted schedules the objects that follow others to locations whose admission has
// changed. Their own admission is independent of that of the objects that they follow.
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

// admitted returns the locations that admit an object and to which it is not left by upsync.
func (e *Engine) admitted(s subject, all *locationSet, yields []key.Location) *locationSet {
	admitted, refused := e.gates.gate(s.state, s.Object).split(all.names)
	if admitted = apart(admitted, yields); refused == nil && len(admitted) == len(all.names) {
		return all
	}
	return e.sets.intern(admitted, nil)
}
