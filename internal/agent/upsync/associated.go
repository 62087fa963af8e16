package upsync

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// What comes back of the objects that belong to one placed object, at most.
const (
	mostOwned  = 50
	mostEvents = 20
	ownedBytes = 256 << 10
	// mostDepth is how long a chain of owners may be.
	mostDepth = 10
)

// place sets what is known of the placed object of an identity; ok is false if there is none
// whose associated objects are asked for.
func (l *ledger) place(id string, r store.Root, ok bool) {
	old := l.rootsAt[id]
	if old != nil && ok && old.UID == r.UID && old.Source == r.Source {
		if old.Associated != r.Associated {
			old.Root, old.kinds = r, setOf(strings.Split(r.Associated, "\n"))
			l.review(uidOf(r.UID), 0)
		}
		return
	}
	if old != nil {
		delete(l.rootsAt, id)
		delete(l.roots, uidOf(old.UID))
		for n := range old.nodes {
			l.settleOwned(n, nil, false)
		}
		l.descend(uidOf(old.UID), 0)
	}
	if ok {
		made := &root{Root: r, kinds: setOf(strings.Split(r.Associated, "\n")), nodes: map[*node]struct{}{}}
		l.rootsAt[id], l.roots[uidOf(r.UID)] = made, made
		l.descend(uidOf(r.UID), 0)
	}
	l.conclude()
}

// wants says whether objects of a resource are asked for by a placed object.
func (l *ledger) wants(r key.Resource) bool {
	for _, x := range l.roots {
		if _, ok := x.kinds[r.String()]; ok {
			return true
		}
	}
	return false
}

// alive says that a root is still one.
func (l *ledger) alive(r *root) bool { return r != nil && l.roots[uidOf(r.UID)] == r }

// resolve finds the placed object that a node belongs to. An owner that is gone, or not seen
// yet, changes nothing.
func (l *ledger) resolve(n *node) *root {
	owner := n.owner
	if maker, ok := l.makers[owner]; ok {
		owner = maker
	}
	if owner == (uid{}) {
		return nil
	}
	if r, ok := l.roots[owner]; ok {
		return r
	}
	if p := l.nodes[owner]; p != nil {
		return p.root
	}
	if l.alive(n.root) {
		return n.root
	}
	return nil
}

// lacks notes that a kind would have to be observed to know what a node belongs to.
func (l *ledger) lacks(n *node, of [2]string) {
	if len(l.roots) == 0 || l.nodes[n.owner] != nil || n.ours {
		return
	}
	if kubeclient.IsEvent(n.kind.Resource) && !chains(of) {
		return
	}
	if n.kind.asked && !l.wants(n.kind.Resource) {
		return
	}
	if _, known := l.links[of]; known || len(l.links) >= mostLinks {
		return
	}
	for _, k := range l.kinds {
		if k.APIGroup() == of[0] && k.Kind == of[1] {
			return
		}
	}
	l.lacking[of] = struct{}{}
}

// chains says that what is of a kind mostly belongs to something else that may be placed. Of
// other kinds, what an Event is about is not looked for.
func chains(of [2]string) bool {
	switch of {
	case [2]string{"", "Pod"}, [2]string{"apps", "ReplicaSet"}, [2]string{"apps", "StatefulSet"}, [2]string{"batch", "Job"}:
		return true
	}
	return false
}

// descend finds anew what the nodes belong to that name an owner.
func (l *ledger) descend(owner uid, depth int) {
	if depth > mostDepth {
		return
	}
	for _, n := range slices.Clone(l.children[owner]) {
		r := l.resolve(n)
		if r == n.root {
			continue
		}
		n.root = r
		l.settleOwned(n, nil, false)
		l.descend(n.uid, depth+1)
	}
	if p := l.nodes[owner]; p != nil {
		for _, c := range p.claims {
			if c != owner {
				l.descend(c, depth+1)
			}
		}
	}
}

// review settles all nodes that belong to an owner, of which other kinds are asked for.
func (l *ledger) review(owner uid, depth int) {
	if depth > mostDepth {
		return
	}
	next := slices.Clone(l.children[owner])
	if p := l.nodes[owner]; p != nil {
		for _, c := range p.claims {
			next = append(next, l.children[c]...)
		}
	}
	for _, n := range next {
		l.settleOwned(n, nil, false)
		l.review(n.uid, depth+1)
	}
}

// ownedLine is the line of what belongs to a placed object; false: where namespaces are
// Prefixed, it is in none of the space.
func (l *ledger) ownedLine(r *root, n *node) (string, bool) {
	o, ok := l.ownedSource(r, n)
	return lineOf(key.Owned, o), ok
}

func (l *ledger) ownedSource(r *root, n *node) (key.Object, bool) {
	at := n.identity()
	if at.Namespace == r.Identity.Namespace {
		at.Namespace = r.Source.Namespace
		return key.Object{Space: r.Source.Space, Identity: at}, true
	}
	return l.asks.placing.From(r.Source.Space, at)
}

// settleOwned makes the report of a node to the space of the placed object that it belongs to
// as it is to be.
func (l *ledger) settleOwned(n *node, s *sighting, changed bool) {
	var in *root
	if l.alive(n.root) && !n.ours && n.kind.full && n.uid != uidOf(n.root.UID) {
		_, asked := n.root.kinds[n.kind.String()]
		if _, has := l.ownedSource(n.root, n); asked && has {
			in = n.root
		}
	}
	if was := n.in; was != nil && was != in {
		delete(was.nodes, n)
		l.dropOwned(was, n)
		n.in = nil
		l.choose(was, nil, nil, false)
	}
	if in == nil {
		return
	}
	n.in = in
	in.nodes[n] = struct{}{}
	l.choose(in, n, s, changed)
}

func (l *ledger) dropOwned(r *root, n *node) {
	if !n.owned && len(l.unclaimed) == 0 {
		return
	}
	line, ok := l.ownedLine(r, n)
	if ok && (n.owned || l.claim(line, key.Owned)) {
		l.changes = append(l.changes, change{line: line})
	}
	n.owned = false
}

// inOrder are the nodes of a placed object, those that come back first. now may be new among
// them. They are sorted from the order that they had, which takes little.
func (r *root) inOrder(now *node) []*node {
	r.order = slices.DeleteFunc(r.order, func(n *node) bool { _, in := r.nodes[n]; return !in })
	if now != nil && !slices.Contains(r.order, now) {
		r.order = append(r.order, now)
	}
	if len(r.order) != len(r.nodes) {
		r.order = slices.AppendSeq(r.order[:0], maps.Keys(r.nodes))
	}
	slices.SortFunc(r.order, before)
	return r.order
}

// before says which of two nodes of a placed object comes back first: what is not an Event,
// what is not healthy, the newer, the first by name.
func before(a, b *node) int {
	if n := cmp.Or(boolean(a.event())-boolean(b.event()), cmp.Compare(b.ill(), a.ill()), cmp.Compare(b.created, a.created)); n != 0 {
		return n
	}
	return byName(a, b)
}

// choose says which of the objects that belong to a placed one come back: those that are not
// healthy first, then the newest. s is the one that was just seen, now.
func (l *ledger) choose(r *root, now *node, s *sighting, changed bool) {
	all := r.inOrder(now)
	objects, events, bytes, left := 0, 0, 0, 0
	for _, n := range all {
		room, count := objects < mostOwned, &objects
		if n.event() {
			room, count = events < mostEvents, &events
		}
		if !room || bytes+n.size > ownedBytes {
			l.dropOwned(r, n)
			left += 1 - boolean(n.event())
			continue
		}
		*count++
		bytes += n.size
		switch {
		case n == now && s != nil && (changed || !n.owned):
			o, _ := l.ownedSource(r, n)
			line := lineOf(key.Owned, o)
			l.claim(line, key.Owned)
			n.owned = true
			l.changes = append(l.changes, change{line, s.report(o, r.Source.Identity.String())})
		case !n.owned && n != now, !n.owned && s == nil:
			l.needs[n] = struct{}{}
		}
	}
	if r.left != left {
		r.left = left
		l.leftOut[r.Identity.String()] = left
	}
}

// ill says how far a node is from being healthy.
func (n *node) ill() int {
	switch n.health {
	case wire.Degraded:
		return 2
	case wire.Progressing:
		return 1
	}
	return 0
}

func (n *node) event() bool { return kubeclient.IsEvent(n.kind.Resource) }

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
