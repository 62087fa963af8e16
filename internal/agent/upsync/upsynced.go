package upsync

import (
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// upsyncs decides about the reports of upsynced objects: which nodes the spaces request, and which of these the
// limits allow.
type upsyncs struct {
	requests *requests
	budget   *budget
	graph    *graph
	out      *outbox
	reads    *reads
	// waits has the number of reports of a node for which there is no room.
	waits map[*node]int
}

// update adapts the reports of a node to the requests of spaces. s is the present object, or nil if the caller does
// not have it. changed reports whether existing reports must be written again.
func (u *upsyncs) update(n *node, s *sighting, changed bool) {
	var requested []key.Object
	if !n.placed && n.kind.full {
		requested = u.requests.sources(n.identity())
	}
	for i := range slices.Backward(n.upsynced) {
		if !hasSpace(requested, n.upsynced[i].space) {
			u.removeReport(n, i)
		}
	}
	if n.placed {
		u.removeUnclaimed(n)
	}
	waiting := 0
	for _, o := range requested {
		if !u.updateSpace(n, s, o, changed) {
			waiting++
		}
	}
	if delete(u.waits, n); waiting > 0 {
		u.waits[n] = waiting
	}
}

// updateSpace is update for one space; false: there is no room.
func (u *upsyncs) updateSpace(n *node, s *sighting, o key.Object, changed bool) bool {
	line := lineOf(key.Upsynced, o)
	i := slices.IndexFunc(n.upsynced, func(r upsyncedReport) bool { return r.space == o.Space })
	isStored := i >= 0
	switch {
	case isStored && (s == nil || !changed):
		return true
	case isStored:
		u.budget.subtract(n.upsynced[i].size)
		u.budget.freed = u.budget.freed || n.size < n.upsynced[i].size
		n.upsynced = slices.Delete(n.upsynced, i, i+1)
	case s == nil:
		if u.out.isUnclaimed(line) || u.budget.fits(n.size) {
			u.reads.need(n)
			return true
		}
		return false
	default:
		isStored = u.out.claim(line, key.Upsynced)
	}
	if !u.budget.fits(n.size) {
		if isStored {
			u.budget.freed = true
			u.out.remove(line)
		}
		return false
	}
	u.budget.add(n.size)
	n.upsynced = append(n.upsynced, upsyncedReport{o.Space, n.size})
	u.out.set(line, s.report(o, ""))
	return true
}

// removeReport removes one of a node's reports.
func (u *upsyncs) removeReport(n *node, i int) {
	removed := n.upsynced[i]
	n.upsynced = slices.Delete(n.upsynced, i, i+1)
	u.budget.release(removed.size)
	for _, o := range u.sourcesIn(removed.space, n) {
		u.out.remove(lineOf(key.Upsynced, o))
	}
}

// removeUnclaimed removes the unclaimed reports of a node.
func (u *upsyncs) removeUnclaimed(n *node) {
	for _, o := range u.requests.sources(n.identity()) {
		u.out.removeUnclaimed(lineOf(key.Upsynced, o), key.Upsynced)
	}
}

// forget removes a node that is deleted at the target, with its reports.
func (u *upsyncs) forget(n *node) {
	for len(n.upsynced) > 0 {
		u.removeReport(n, len(n.upsynced)-1)
	}
	u.removeUnclaimed(n)
}

// detach removes a node and keeps its reports in the store, as unclaimed.
func (u *upsyncs) detach(n *node) {
	for _, r := range n.upsynced {
		if all := u.sourcesIn(r.space, n); len(all) > 0 {
			u.out.expect(lineOf(key.Upsynced, all[0]), r.size)
		}
	}
	n.upsynced = nil
}

// sourcesIn returns a node as a space may have it, by its present rules and by earlier ones.
func (u *upsyncs) sourcesIn(s key.Space, n *node) (all []key.Object) {
	for i := range u.requests.rules {
		if r := &u.requests.rules[i]; r.space == s {
			if o, ok := r.source(u.requests.placing, n.identity()); ok && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	if o, ok := u.requests.placing.From(s, n.identity()); ok && !slices.Contains(all, o) {
		all = append(all, o)
	}
	return all
}

// setRequests sets the requests of spaces, and the limits.
func (u *upsyncs) setRequests(next *requests, most limits) {
	u.budget.limits, u.budget.freed = most, true
	for _, k := range u.graph.kinds {
		for _, n := range k.nodes {
			for i := range slices.Backward(n.upsynced) {
				if !hasSpace(next.sources(n.identity()), n.upsynced[i].space) {
					u.removeReport(n, i) // while the rules have the names of its lines
				}
			}
		}
	}
	u.requests = next
	u.out.removeEach(func(r key.Report) bool { return r.Origin == key.Upsynced && !u.isRequested(r.Object) })
	u.shrink()
	for _, k := range u.graph.kinds {
		for _, n := range k.nodes {
			u.update(n, nil, false)
		}
	}
}

// isRequested reports whether its space requests an object.
func (u *upsyncs) isRequested(o key.Object) bool {
	return slices.Contains(u.requests.sources(u.requests.placing.TargetIdentity(o)), o)
}

// shrink removes the last reports, by name, until the limits are met.
func (u *upsyncs) shrink() {
	if !u.budget.isExceeded() {
		return
	}
	all := u.graph.sorted(func(n *node) bool { return len(n.upsynced) > 0 })
	slices.Reverse(all)
	for _, n := range all {
		for len(n.upsynced) > 0 && u.budget.isExceeded() {
			u.removeReport(n, len(n.upsynced)-1)
		}
	}
}

// refill requests a read of the first waiting nodes, by name, as far as there is room.
func (u *upsyncs) refill() {
	if !u.budget.freed {
		return
	}
	u.budget.freed = false
	room := u.budget.limits.objects - u.budget.used.objects - len(u.reads.needed)
	bytes := u.budget.limits.bytes - u.budget.used.bytes
	for _, n := range u.graph.sorted(func(n *node) bool { return u.waits[n] > 0 }) {
		if room <= 0 {
			return
		}
		if int64(n.size) <= bytes {
			u.reads.need(n)
			bytes -= int64(n.size)
			room--
		}
	}
}

// waiting returns the number of reports for which there is no room.
func (u *upsyncs) waiting() (n int) {
	for _, more := range u.waits {
		n += more
	}
	return n
}
