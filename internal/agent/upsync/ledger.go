package upsync

import (
	"slices"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// ledger knows what was observed and what of it is in the store, and says what has to change
// there. It does no I/O, and is not safe for concurrent use.
type ledger struct {
	asks   *asks
	limits limits
	kinds  map[key.Resource]*kind
	nodes  map[uid]*node
	// children are the nodes that name an owner.
	children map[uid][]*node
	// makers has the StatefulSet that makes claims of a name.
	makers  map[uid]uid
	roots   map[uid]*root
	rootsAt map[string]*root
	// unclaimed are the lines in the store of objects that have not been seen yet, with
	// their sizes.
	unclaimed map[string]int
	// born adds up what was born and is in the store, and waits are nodes that would be.
	born  usage
	waits map[*node]int
	// freed says that there is more room than when those were last looked through.
	freed bool
	// needs are nodes whose object has to be read again, since it passed by, and resting those
	// that have changed since they were reported, and are reported later.
	needs, resting map[*node]struct{}
	// begun is where the ledger's time begins.
	begun time.Time
	// lacking are kinds (API group and kind) of owners that are not observed, links those that
	// are, for what owns their objects, or would be if they were served.
	lacking, links map[[2]string]struct{}
	// changes are what has to change in the store, in order.
	changes []change
	// leftOut are roots of which another number of objects is left out than before.
	leftOut map[string]int
}

// limits bound what comes back of born objects.
type limits usage

// usage is a number of objects and of bytes.
type usage struct {
	objects int
	bytes   int64
}

// change sets the report of a line, or removes it.
type change struct {
	line   string
	report *wire.Report
}

// kind is a resource that is observed.
type kind struct {
	kubeclient.Served
	// full says that whole objects are read, and not only their metadata.
	full bool
	// asked says that what is asked for may be of it; else it is observed for what it owns.
	asked  bool
	synced bool
	nodes  map[[2]string]*node // by namespace and name
}

func (k *kind) apiVersion() string {
	if g := k.APIGroup(); g != "" {
		return g + "/" + k.Version
	}
	return k.Version
}

// node is what is kept of an object that was observed.
type node struct {
	kind            *kind
	namespace, name string
	uid, owner      uid
	created         int64
	hash            uint64
	size            int
	health          wire.Health
	ours, ending    bool
	// told is when a change of it was last reported, as the ledger counts; zero: none was.
	told   time.Duration
	claims []uid
	// root is the placed object that it belongs to, of which in has the node if its kind is
	// asked for, and owned says that its report is in the store.
	root, in *root
	owned    bool
	// born are the spaces whose reports of it are in the store.
	born []bornIn
}

// bornIn is a report in the store of what was born.
type bornIn struct {
	space key.Space
	size  int
}

func (n *node) identity() key.Identity {
	return key.Identity{Resource: n.kind.Resource, Namespace: n.namespace, Name: n.name}
}

func newLedger(a *asks, l limits) *ledger {
	return &ledger{
		asks: a, limits: l, kinds: map[key.Resource]*kind{}, nodes: map[uid]*node{}, children: map[uid][]*node{}, makers: map[uid]uid{},
		roots: map[uid]*root{}, rootsAt: map[string]*root{}, unclaimed: map[string]int{}, waits: map[*node]int{}, needs: map[*node]struct{}{}, resting: map[*node]struct{}{},
		lacking: map[[2]string]struct{}{}, links: map[[2]string]struct{}{}, leftOut: map[string]int{},
	}
}

// stored notes a line that the store has from before.
func (l *ledger) stored(line string, origin key.Origin, size int) {
	l.unclaimed[line] = size
	if origin == key.Born {
		l.born.add(size)
	}
}

func (u *usage) add(size int) { u.objects, u.bytes = u.objects+1, u.bytes+int64(size) }
func (u *usage) sub(size int) { u.objects, u.bytes = u.objects-1, u.bytes-int64(size) }

// observes begins with a kind, of which nothing is known yet.
func (l *ledger) observes(s kubeclient.Served, full, asked bool) *kind {
	k := &kind{Served: s, full: full, asked: asked, nodes: map[[2]string]*node{}}
	l.kinds[s.Resource] = k
	return k
}

// forgets ends a kind: none of its objects is there, or is asked for.
func (l *ledger) forgets(k *kind) {
	for _, n := range k.nodes {
		l.remove(n)
	}
	if l.kinds[k.Resource] == k {
		delete(l.kinds, k.Resource)
	}
	l.dropUnclaimed(func(r key.Report) bool { return r.Resource == k.Resource })
}

// empties ends a kind that is observed anew: what the store has of its objects stays until
// that is complete.
func (l *ledger) empties(k *kind) {
	for _, n := range k.nodes {
		for _, b := range n.born {
			for i, o := range l.sourcesIn(b.space, n) {
				if i == 0 {
					l.unclaimed[lineOf(key.Born, o)] = b.size
				}
			}
		}
		n.born = nil
		if n.in != nil {
			if line, ok := l.ownedLine(n.in, n); ok && n.owned {
				l.unclaimed[line] = n.size
			}
			delete(n.in.nodes, n)
			n.in, n.owned = nil, false
		}
		n.root = nil
		l.drop(n)
	}
	if l.kinds[k.Resource] == k {
		delete(l.kinds, k.Resource)
	}
}

// see takes note of an object as it is now.
func (l *ledger) see(s *sighting, now time.Time) {
	k, at := s.kind, [2]string{s.meta.Namespace, s.meta.Name}
	id := uidOf(s.meta.UID)
	n := k.nodes[at]
	if n != nil && n.uid != id { // another of the name
		l.remove(n)
		n = nil
	}
	fresh := n == nil
	if fresh {
		n = &node{kind: k, namespace: at[0], name: at[1], uid: id}
		k.nodes[at], l.nodes[id] = n, n
	}
	changed := fresh || n.hash != s.hash && !l.rests(n, s, now)
	if changed {
		n.hash = s.hash
		delete(l.resting, n)
	}
	if changed && !fresh {
		n.told = l.clock(now)
	}
	n.ours, n.created, n.health, n.ending, n.size = s.ours, s.created, s.health, ends(s.meta), s.size
	delete(l.needs, n)
	if fresh || n.owner != s.owner {
		l.unlink(n)
		n.owner, n.root = s.owner, nil
		if n.owner != (uid{}) {
			l.children[n.owner] = append(l.children[n.owner], n)
		}
	}
	l.makes(n, s.claims)
	before := n.root
	n.root = l.resolve(n)
	if n.root == nil && n.owner != (uid{}) && s.ownerKind[1] != "" {
		l.lacks(n, s.ownerKind)
	}
	l.settleBorn(n, s, changed)
	l.settleOwned(n, s, changed)
	if fresh || before != n.root {
		l.descend(n.uid, 0)
	}
}

// gone takes note that an object is gone; nil if it was not known.
func (l *ledger) gone(k *kind, namespace, name string) {
	if n := k.nodes[[2]string{namespace, name}]; n != nil {
		l.remove(n)
		return
	}
	id := key.Identity{Resource: k.Resource, Namespace: namespace, Name: name}.String()
	l.dropUnclaimed(func(r key.Report) bool { return r.Identity.String() == id && l.asks.placing == key.Same })
}

// listed takes note that a list of a kind is complete: what it did not show is gone.
func (l *ledger) listed(k *kind, seen map[*node]struct{}) {
	for _, n := range k.nodes {
		if _, ok := seen[n]; !ok {
			l.remove(n)
		}
	}
	k.synced = true
	l.dropUnclaimed(func(r key.Report) bool { return r.Origin == key.Born && r.Resource == k.Resource })
	l.conclude()
}

// conclude drops what the store has of owned objects that nobody has claimed, once all has
// been seen that could.
func (l *ledger) conclude() {
	if len(l.unclaimed) == 0 || len(l.needs) > 0 || len(l.lacking) > 0 {
		return
	}
	for _, k := range l.kinds {
		if !k.synced {
			return
		}
	}
	l.dropUnclaimed(func(r key.Report) bool { return r.Origin == key.Owned })
}

// dropUnclaimed drops lines of the store whose objects have not been seen.
func (l *ledger) dropUnclaimed(which func(key.Report) bool) {
	for line := range l.unclaimed {
		if r, err := key.ParseLine("", line); err == nil && which(r) {
			l.claim(line, r.Origin)
			l.changes = append(l.changes, change{line: line})
		}
	}
}

// claim says that the store has a line of an object that was not seen before.
func (l *ledger) claim(line string, origin key.Origin) bool {
	size, ok := l.unclaimed[line]
	if !ok {
		return false
	}
	delete(l.unclaimed, line)
	if origin == key.Born {
		l.born.sub(size)
		l.freed = true
	}
	return true
}

// remove forgets a node, and drops its reports.
func (l *ledger) remove(n *node) {
	for len(n.born) > 0 {
		l.dropBorn(n, len(n.born)-1)
	}
	for _, o := range l.asks.of(n.identity()) { // it may not have been claimed
		if line := lineOf(key.Born, o); l.claim(line, key.Born) {
			l.changes = append(l.changes, change{line: line})
		}
	}
	root := n.root
	n.root = nil
	l.settleOwned(n, nil, false)
	if root != nil && !n.ours {
		if line, ok := l.ownedLine(root, n); ok && l.claim(line, key.Owned) {
			l.changes = append(l.changes, change{line: line})
		}
	}
	l.drop(n)
}

// drop forgets a node that has no reports.
func (l *ledger) drop(n *node) {
	l.unlink(n)
	l.makes(n, nil)
	delete(n.kind.nodes, [2]string{n.namespace, n.name})
	if l.nodes[n.uid] == n {
		delete(l.nodes, n.uid)
	}
	delete(l.needs, n)
	delete(l.resting, n)
	delete(l.waits, n)
}

// unlink takes a node from its owner.
func (l *ledger) unlink(n *node) {
	if n.owner == (uid{}) {
		return
	}
	all := l.children[n.owner]
	if i := slices.Index(all, n); i >= 0 {
		all[i] = all[len(all)-1]
		all[len(all)-1] = nil
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		delete(l.children, n.owner)
	} else {
		l.children[n.owner] = all
	}
}

// makes notes what claims a StatefulSet makes.
func (l *ledger) makes(n *node, all []uid) {
	if slices.Equal(n.claims, all) {
		return
	}
	was := n.claims
	n.claims = all
	for _, c := range was {
		if l.makers[c] == n.uid {
			delete(l.makers, c)
		}
	}
	for _, c := range all {
		l.makers[c] = n.uid
		l.descend(c, 0)
	}
}

// lineOf is the line of an object's report.
func lineOf(origin key.Origin, o key.Object) string {
	return key.Report{Origin: origin, Object: o}.Line()
}

// take returns what has to change in the store since the last time.
func (l *ledger) take() []change {
	all := l.changes
	l.changes = nil
	return all
}

// root is a placed object, of those that others belong to.
type root struct {
	store.Root
	kinds map[string]struct{} // as Root.Associated has them
	nodes map[*node]struct{}
	// order has those that were nodes when it was last needed.
	order []*node
	// left is how many of these are left out.
	left int
}
