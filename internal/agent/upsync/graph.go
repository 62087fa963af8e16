package upsync

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// uid is a hash of the UID of an object; zero: none.
type uid [16]byte

func uidOf(text string) (u uid) {
	if text != "" {
		sum := sha256.Sum256([]byte(text))
		copy(u[:], sum[:])
	}
	return u
}

// claimPrefix stands for the StatefulSet that creates the PersistentVolumeClaims whose names begin with a prefix.
// A claim itself does not name its StatefulSet.
func claimPrefix(namespace, prefix string) uid { return uidOf("claims " + namespace + "/" + prefix) }

// kind is an observed resource.
type kind struct {
	kubeclient.Served
	// full is true if whole objects are read. Otherwise only their metadata is read.
	full bool
	// requested is true if its objects may be requested. Otherwise it is observed to find the owners of objects.
	requested bool
	// synced is true after a complete list.
	synced bool
	nodes  map[[2]string]*node // by namespace and name
}

func (k *kind) apiVersion() string {
	if g := k.APIGroup(); g != "" {
		return g + "/" + k.Version
	}
	return k.Version
}

// node is the data that is kept of an observed object.
type node struct {
	kind            *kind
	namespace, name string
	uid, owner      uid
	created         int64
	hash            uint64
	size            int
	health          wire.Health
	// placed is true if a Placement put the object there.
	placed, terminating bool
	// reported is the time of the last report of a change, by the clock of reads; zero: there was none.
	reported time.Duration
	// claims are the prefixes of the PersistentVolumeClaims that it creates, if it is a StatefulSet.
	claims []uid
	// root is the placed object to which it belongs. member is the same if the root requests its kind, and nil
	// otherwise. associated is true if the store has its report as an associated object.
	root, member *root
	associated   bool
	// upsynced are the spaces for which the store has its report as an upsynced object.
	upsynced []upsyncedReport
}

// upsyncedReport is a report in the store of an upsynced object.
type upsyncedReport struct {
	space key.Space
	size  int
}

func (n *node) identity() key.Identity {
	return key.Identity{Resource: n.kind.Resource, Namespace: n.namespace, Name: n.name}
}

func (n *node) isEvent() bool { return kubeclient.IsEvent(n.kind.Resource) }

// isReported reports whether the store has a report of the node.
func (n *node) isReported() bool { return n.associated || len(n.upsynced) > 0 }

// severity orders nodes by health: the highest is the least healthy.
func (n *node) severity() int {
	switch n.health {
	case wire.Degraded:
		return 2
	case wire.Progressing:
		return 1
	}
	return 0
}

// root is a placed object to which others may belong.
type root struct {
	store.Root
	kinds map[string]struct{} // of Root.Associated
	// members are the nodes of requested kinds that belong to it.
	members map[*node]struct{}
	// order has the members of the last call of ordered.
	order []*node
	// omitted is the number of members that are not reported.
	omitted int
}

// ordered returns the members, in the order of precedence for reports. added may be a new one. Sorting starts
// from the previous order, so it is fast.
func (r *root) ordered(added *node) []*node {
	r.order = slices.DeleteFunc(r.order, func(n *node) bool { _, isMember := r.members[n]; return !isMember })
	if added != nil && !slices.Contains(r.order, added) {
		r.order = append(r.order, added)
	}
	if len(r.order) != len(r.members) {
		r.order = slices.AppendSeq(r.order[:0], maps.Keys(r.members))
	}
	slices.SortFunc(r.order, byPrecedence)
	return r.order
}

// byPrecedence orders the members of a root for reports: Events last, then the least healthy, the newest, and the
// first by name.
func byPrecedence(a, b *node) int {
	if n := cmp.Or(number(a.isEvent())-number(b.isEvent()), cmp.Compare(b.severity(), a.severity()), cmp.Compare(b.created, a.created)); n != 0 {
		return n
	}
	return byName(a, b)
}

// byName compares the names of nodes. It creates no strings, since very many nodes may exceed a limit.
func byName(a, b *node) int {
	if a.kind != b.kind {
		if n := cmp.Compare(a.kind.String(), b.kind.String()); n != 0 {
			return n
		}
	}
	if n := cmp.Compare(a.namespace, b.namespace); n != 0 {
		return n
	}
	return cmp.Compare(a.name, b.name)
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// graph has the nodes of all kinds, and which of them own others. It knows nothing of reports.
type graph struct {
	kinds map[key.Resource]*kind
	nodes map[uid]*node
	// children are the nodes by the owner that they name.
	children map[uid][]*node
	// makers has the StatefulSets by the prefix of the PersistentVolumeClaims that they create.
	makers map[uid]uid
}

func newGraph() *graph {
	return &graph{kinds: map[key.Resource]*kind{}, nodes: map[uid]*node{}, children: map[uid][]*node{}, makers: map[uid]uid{}}
}

// observe adds a kind without nodes.
func (g *graph) observe(s kubeclient.Served, full, requested bool) *kind {
	k := &kind{Served: s, full: full, requested: requested, nodes: map[[2]string]*node{}}
	g.kinds[s.Resource] = k
	return k
}

// end removes a kind, unless another one of the resource has replaced it.
func (g *graph) end(k *kind) {
	if g.kinds[k.Resource] == k {
		delete(g.kinds, k.Resource)
	}
}

// isSynced reports whether all kinds were listed.
func (g *graph) isSynced() bool {
	for _, k := range g.kinds {
		if !k.synced {
			return false
		}
	}
	return true
}

// observes reports whether a kind, given by its API group and name, is observed.
func (g *graph) observes(groupKind [2]string) bool {
	for _, k := range g.kinds {
		if k.APIGroup() == groupKind[0] && k.Kind == groupKind[1] {
			return true
		}
	}
	return false
}

// get returns the node of an identity whose kind is read in full; nil: there is none.
func (g *graph) get(id key.Identity) *node {
	k := g.kinds[id.Resource]
	if k == nil || !k.full {
		return nil
	}
	return k.nodes[[2]string{id.Namespace, id.Name}]
}

// sorted returns the nodes for which include returns true, in the order of their names.
func (g *graph) sorted(include func(*node) bool) (all []*node) {
	for _, k := range g.kinds {
		for _, n := range k.nodes {
			if include(n) {
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// add adds a node without owner.
func (g *graph) add(k *kind, namespace, name string, id uid) *node {
	n := &node{kind: k, namespace: namespace, name: name, uid: id}
	k.nodes[[2]string{namespace, name}], g.nodes[id] = n, n
	return n
}

// remove removes a node. The links of its children to it stay.
func (g *graph) remove(n *node) {
	g.setOwner(n, uid{})
	delete(n.kind.nodes, [2]string{n.namespace, n.name})
	if g.nodes[n.uid] == n {
		delete(g.nodes, n.uid)
	}
}

// setOwner links a node with another owner; zero: none.
func (g *graph) setOwner(n *node, owner uid) {
	if n.owner != (uid{}) {
		g.unlink(n)
	}
	if n.owner = owner; owner != (uid{}) {
		g.children[owner] = append(g.children[owner], n)
	}
}

func (g *graph) unlink(n *node) {
	all := g.children[n.owner]
	if i := slices.Index(all, n); i >= 0 {
		all[i] = all[len(all)-1]
		all[len(all)-1] = nil
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		delete(g.children, n.owner)
	} else {
		g.children[n.owner] = all
	}
}

// setClaims sets the prefixes of the PersistentVolumeClaims that a StatefulSet creates. It reports whether they
// have changed.
func (g *graph) setClaims(n *node, claims []uid) bool {
	if slices.Equal(n.claims, claims) {
		return false
	}
	previous := n.claims
	n.claims = claims
	for _, c := range previous {
		if g.makers[c] == n.uid {
			delete(g.makers, c)
		}
	}
	for _, c := range claims {
		g.makers[c] = n.uid
	}
	return true
}

// owner returns the UID of a node's owner; zero: it names none, or the StatefulSet of its prefix is not known.
func (g *graph) owner(n *node) uid {
	if maker, ok := g.makers[n.owner]; ok {
		return maker
	}
	return n.owner
}
