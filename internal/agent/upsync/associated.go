package upsync

import (
	"slices"
	"strings"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// Limits of the reports of objects that belong to one placed object.
const (
	mostOwned  = 50
	mostEvents = 20
	ownedBytes = 256 << 10
)

const (
	// mostDepth is the maximum length of a chain of owners.
	mostDepth = 10
	// mostLinks is the maximum number of kinds that are observed only to find the owners of objects.
	mostLinks = 16
)

// associations decides about the reports of associated objects: which placed object each node belongs to, and
// which of its members a placed object reports.
type associations struct {
	placing key.Placing
	graph   *graph
	out     *outbox
	reads   *reads

	roots   map[uid]*root
	rootsAt map[string]*root // by identity
	// links are kinds, as API group and kind, that are observed to find the owners of objects, or would be if
	// they were served. lacking are further ones that plan adds.
	links, lacking map[[2]string]struct{}
	// omitted are the roots for which the number of omitted members has changed, with this number.
	omitted map[string]int
}

func newAssociations(placing key.Placing, g *graph, out *outbox, r *reads) *associations {
	return &associations{
		placing: placing, graph: g, out: out, reads: r, roots: map[uid]*root{}, rootsAt: map[string]*root{},
		links: map[[2]string]struct{}{}, lacking: map[[2]string]struct{}{}, omitted: map[string]int{},
	}
}

// place sets the placed object of an identity. ok is false if there is none that requests associated objects.
func (a *associations) place(id string, r store.Root, ok bool) {
	old := a.rootsAt[id]
	if old != nil && ok && old.UID == r.UID && old.Source == r.Source {
		if old.Associated != r.Associated {
			old.Root, old.kinds = r, setOf(strings.Split(r.Associated, "\n"))
			a.updateBelow(uidOf(r.UID), 0)
		}
		return
	}
	if old != nil {
		delete(a.rootsAt, id)
		delete(a.roots, uidOf(old.UID))
		for n := range old.members {
			a.update(n, nil, false)
		}
		a.resolveBelow(uidOf(old.UID), 0)
	}
	if ok {
		placed := &root{Root: r, kinds: setOf(strings.Split(r.Associated, "\n")), members: map[*node]struct{}{}}
		a.rootsAt[id], a.roots[uidOf(r.UID)] = placed, placed
		a.resolveBelow(uidOf(r.UID), 0)
	}
}

// request reports whether a placed object requests objects of a resource.
func (a *associations) request(r key.Resource) bool {
	for _, placed := range a.roots {
		if _, ok := placed.kinds[r.String()]; ok {
			return true
		}
	}
	return false
}

// plan adds the lacking kinds to the links, as far as there is room.
func (a *associations) plan() {
	for groupKind := range a.lacking {
		if len(a.links) < mostLinks {
			a.links[groupKind] = struct{}{}
		}
	}
	clear(a.lacking)
	if len(a.roots) == 0 {
		clear(a.links)
	}
}

func (a *associations) isCurrent(r *root) bool { return r != nil && a.roots[uidOf(r.UID)] == r }

// resolve returns the placed object to which a node belongs. If its owner is deleted or not observed yet, the
// node keeps its root.
func (a *associations) resolve(n *node) *root {
	owner := a.graph.owner(n)
	if owner == (uid{}) {
		return nil
	}
	if r, ok := a.roots[owner]; ok {
		return r
	}
	if p := a.graph.nodes[owner]; p != nil {
		return p.root
	}
	if a.isCurrent(n.root) {
		return n.root
	}
	return nil
}

// lack records that the kind of a node's owner must be observed to find the root of the node.
func (a *associations) lack(n *node, groupKind [2]string) {
	if len(a.roots) == 0 || a.graph.nodes[n.owner] != nil || n.placed {
		return
	}
	if n.isEvent() && !isUsuallyOwned(groupKind) {
		return
	}
	if n.kind.requested && !a.request(n.kind.Resource) {
		return
	}
	if _, known := a.links[groupKind]; known || len(a.links) >= mostLinks || a.graph.observes(groupKind) {
		return
	}
	a.lacking[groupKind] = struct{}{}
}

// isUsuallyOwned reports whether most objects of a kind have an owner that may be placed. The agent does not look
// for objects of other kinds that Events refer to.
func isUsuallyOwned(groupKind [2]string) bool {
	switch groupKind {
	case [2]string{"", "Pod"}, [2]string{"apps", "ReplicaSet"}, [2]string{"apps", "StatefulSet"}, [2]string{"batch", "Job"}:
		return true
	}
	return false
}

// resolveBelow updates the roots of all nodes below an owner.
func (a *associations) resolveBelow(owner uid, depth int) {
	if depth > mostDepth {
		return
	}
	for _, n := range slices.Clone(a.graph.children[owner]) {
		r := a.resolve(n)
		if r == n.root {
			continue
		}
		n.root = r
		a.update(n, nil, false)
		a.resolveBelow(n.uid, depth+1)
	}
	if p := a.graph.nodes[owner]; p != nil {
		for _, c := range p.claims {
			if c != owner {
				a.resolveBelow(c, depth+1)
			}
		}
	}
}

// updateBelow updates the reports of all nodes below an owner, after a change of the requested kinds.
func (a *associations) updateBelow(owner uid, depth int) {
	if depth > mostDepth {
		return
	}
	next := slices.Clone(a.graph.children[owner])
	if p := a.graph.nodes[owner]; p != nil {
		for _, c := range p.claims {
			next = append(next, a.graph.children[c]...)
		}
	}
	for _, n := range next {
		a.update(n, nil, false)
		a.updateBelow(n.uid, depth+1)
	}
}

// line returns the line of a node's report for a placed object; false: with the namespace mapping, the node is in
// no namespace of the space.
func (a *associations) line(r *root, n *node) (string, bool) {
	o, ok := a.source(r, n)
	return lineOf(key.Owned, o), ok
}

// source returns a node as the space of a placed object has it.
func (a *associations) source(r *root, n *node) (key.Object, bool) {
	id := n.identity()
	if id.Namespace == r.Identity.Namespace {
		id.Namespace = r.Source.Namespace
		return key.Object{Space: r.Source.Space, Identity: id}, true
	}
	return a.placing.From(r.Source.Space, id)
}

// update adapts the report of a node, as an associated object, to its root. s is the present object, or nil if the
// caller does not have it. changed reports whether the report must be written again.
func (a *associations) update(n *node, s *sighting, changed bool) {
	var next *root
	if a.isCurrent(n.root) && !n.placed && n.kind.full && n.uid != uidOf(n.root.UID) {
		_, requested := n.root.kinds[n.kind.String()]
		if _, ok := a.source(n.root, n); requested && ok {
			next = n.root
		}
	}
	if previous := n.member; previous != nil && previous != next {
		delete(previous.members, n)
		a.removeReport(previous, n)
		n.member = nil
		a.choose(previous, nil, nil, false)
	}
	if next == nil {
		return
	}
	n.member = next
	next.members[n] = struct{}{}
	a.choose(next, n, s, changed)
}

// removeReport removes the report of a node.
func (a *associations) removeReport(r *root, n *node) {
	if !n.associated && len(a.out.unclaimed) == 0 {
		return
	}
	if line, ok := a.line(r, n); ok && (n.associated || a.out.claim(line, key.Owned)) {
		a.out.remove(line)
	}
	n.associated = false
}

// forget removes a node that is deleted at the target, with its report.
func (a *associations) forget(n *node) {
	last := n.root
	n.root = nil
	a.update(n, nil, false)
	if last != nil && !n.placed {
		if line, ok := a.line(last, n); ok {
			a.out.removeUnclaimed(line, key.Owned)
		}
	}
}

// detach removes a node and keeps its report in the store, as unclaimed.
func (a *associations) detach(n *node) {
	if n.member != nil {
		if line, ok := a.line(n.member, n); ok && n.associated {
			a.out.expect(line, n.size)
		}
		delete(n.member.members, n)
		n.member, n.associated = nil, false
	}
	n.root = nil
}

// choose decides which members of a placed object are reported: those with the highest precedence, within the
// limits. s is the present object of the member current, or nil if the caller does not have it.
func (a *associations) choose(r *root, current *node, s *sighting, changed bool) {
	all := r.ordered(current)
	objects, events, bytes, omitted := 0, 0, 0, 0
	for _, n := range all {
		hasRoom, count := objects < mostOwned, &objects
		if n.isEvent() {
			hasRoom, count = events < mostEvents, &events
		}
		if !hasRoom || bytes+n.size > ownedBytes {
			a.removeReport(r, n)
			omitted += 1 - number(n.isEvent())
			continue
		}
		*count++
		bytes += n.size
		switch {
		case n == current && s != nil && (changed || !n.associated):
			o, _ := a.source(r, n)
			line := lineOf(key.Owned, o)
			a.out.claim(line, key.Owned)
			n.associated = true
			a.out.set(line, s.report(o, r.Source.Identity.String()))
		case !n.associated && n != current, !n.associated && s == nil:
			a.reads.need(n)
		}
	}
	if r.omitted != omitted {
		r.omitted = omitted
		a.omitted[r.Identity.String()] = omitted
	}
}

// observesFor reports whether a kind is observed for associated objects or their owners.
func (a *associations) observesFor(s kubeclient.Served) (full, link bool) {
	_, link = a.links[[2]string{s.APIGroup(), s.Kind}]
	return a.request(s.Resource) || s.Resource == key.StatefulSets && a.request(key.PersistentVolumeClaims), link
}
