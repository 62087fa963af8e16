package upsync

import (
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// ledger derives the reports in the store from the observed objects, the requests of spaces, and the placed
// objects. It passes each change to its parts: graph has the objects, upsynced and associated decide about the two
// types of reports, out has the changes for the store, and reads the objects to read again. It does no I/O, and is
// not safe for concurrent use.
type ledger struct {
	graph      *graph
	upsynced   *upsyncs
	associated *associations
	out        *outbox
	reads      *reads
}

func newLedger(a *requests, most limits) *ledger {
	b := &budget{limits: most}
	g, out, r := newGraph(), &outbox{unclaimed: map[string]int{}, budget: b}, newReads()
	return &ledger{
		graph: g, out: out, reads: r, associated: newAssociations(a.placing, g, out, r),
		upsynced: &upsyncs{requests: a, budget: b, graph: g, out: out, reads: r, waits: map[*node]int{}},
	}
}

// forget ends the observation of a kind that is not served or not requested any more, and removes its reports.
func (l *ledger) forget(k *kind) {
	for _, n := range k.nodes {
		l.remove(n)
	}
	l.graph.end(k)
	l.out.removeEach(func(r key.Report) bool { return r.Resource == k.Resource })
}

// restart ends the observation of a kind that another observation replaces. Its reports in the store stay until
// that one has listed it.
func (l *ledger) restart(k *kind) {
	for _, n := range k.nodes {
		l.upsynced.detach(n)
		l.associated.detach(n)
		l.drop(n)
	}
	l.graph.end(k)
}

// see records the present state of an object.
func (l *ledger) see(s *sighting, now time.Time) {
	k, name := s.kind, [2]string{s.meta.Namespace, s.meta.Name}
	id := uidOf(s.meta.UID)
	n := k.nodes[name]
	if n != nil && n.uid != id { // another object of the name
		l.remove(n)
		n = nil
	}
	isNew := n == nil
	if isNew {
		n = l.graph.add(k, name[0], name[1], id)
	}
	changed := isNew || n.hash != s.hash && !l.reads.delays(n, s, now)
	if changed {
		n.hash = s.hash
		l.reads.forget(n)
	}
	if changed && !isNew {
		n.reported = l.reads.clock(now)
	}
	n.placed, n.created, n.health, n.terminating, n.size = s.placed, s.created, s.health, isTerminating(s.meta), s.size
	delete(l.reads.needed, n)
	if n.owner != s.owner {
		l.graph.setOwner(n, s.owner)
		n.root = nil
	}
	l.setClaims(n, s.claims)
	previous := n.root
	n.root = l.associated.resolve(n)
	if n.root == nil && n.owner != (uid{}) && s.ownerKind[1] != "" {
		l.associated.lack(n, s.ownerKind)
	}
	l.upsynced.update(n, s, changed)
	l.associated.update(n, s, changed)
	if isNew || previous != n.root {
		l.associated.resolveBelow(n.uid, 0)
	}
}

// gone records the deletion of an object.
func (l *ledger) gone(k *kind, namespace, name string) {
	if n := k.nodes[[2]string{namespace, name}]; n != nil {
		l.remove(n)
		return
	}
	id := key.Identity{Resource: k.Resource, Namespace: namespace, Name: name}.String()
	placing := l.upsynced.requests.placing
	l.out.removeEach(func(r key.Report) bool { return r.Identity.String() == id && placing == key.Same })
}

// listed records that a list of a kind is complete: nodes that are not in seen are deleted.
func (l *ledger) listed(k *kind, seen map[*node]struct{}) {
	for _, n := range k.nodes {
		if _, ok := seen[n]; !ok {
			l.remove(n)
		}
	}
	k.synced = true
	l.out.removeEach(func(r key.Report) bool { return r.Origin == key.Upsynced && r.Resource == k.Resource })
	l.conclude()
}

// conclude removes the unclaimed reports of associated objects after all objects were observed that could claim
// them.
func (l *ledger) conclude() {
	if len(l.out.unclaimed) == 0 || len(l.reads.needed) > 0 || len(l.associated.lacking) > 0 || !l.graph.isSynced() {
		return
	}
	l.out.removeEach(func(r key.Report) bool { return r.Origin == key.Owned })
}

// place sets the placed object of an identity, see associations.place.
func (l *ledger) place(id string, r store.Root, ok bool) {
	l.associated.place(id, r, ok)
	l.conclude()
}

// setRequests sets the requests of spaces, and the limits.
func (l *ledger) setRequests(next *requests, most limits) {
	l.upsynced.setRequests(next, most)
	l.conclude()
}

// remove removes a node and its reports.
func (l *ledger) remove(n *node) {
	l.upsynced.forget(n)
	l.associated.forget(n)
	l.drop(n)
}

// drop removes a node that has no reports.
func (l *ledger) drop(n *node) {
	l.setClaims(n, nil)
	l.graph.remove(n)
	l.reads.forget(n)
	delete(l.upsynced.waits, n)
}

// setClaims sets the prefixes of the PersistentVolumeClaims that a StatefulSet creates.
func (l *ledger) setClaims(n *node, claims []uid) {
	if l.graph.setClaims(n, claims) {
		for _, c := range claims {
			l.associated.resolveBelow(c, 0)
		}
	}
}

// requests reports whether any object is requested.
func (l *ledger) requests() bool {
	return len(l.upsynced.requests.rules) > 0 || len(l.associated.roots) > 0
}

// needs returns how a kind must be observed: full for its objects, which are requested if requested is true;
// otherwise link, to find the owners of objects.
func (l *ledger) needs(s kubeclient.Served) (full, requested, link bool) {
	requested = l.upsynced.requests.include(s.Resource) || l.associated.request(s.Resource)
	full, link = l.associated.observesFor(s)
	return full || requested, requested, link
}
