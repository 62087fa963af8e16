package upsync

import (
	"cmp"
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// The limits where the hub sends none.
const (
	defaultObjects = 10_000
	defaultBytes   = 64 << 20
)

// holds says whether there is room for another report of a size.
func (l *ledger) holds(size int) bool {
	return l.born.objects < l.limits.objects && l.born.bytes+int64(size) <= l.limits.bytes
}

// settleBorn makes the reports to the spaces that ask for an object as they are to be. s is
// the object as it was just seen; nil: it was not.
func (l *ledger) settleBorn(n *node, s *sighting, changed bool) {
	var want []key.Object
	if !n.ours && n.kind.full {
		want = l.asks.of(n.identity())
	}
	for i := range slices.Backward(n.born) {
		if !hasSpace(want, n.born[i].space) {
			l.dropBorn(n, i)
		}
	}
	if n.ours { // what the store has of it from before
		for _, o := range l.asks.of(n.identity()) {
			if line := lineOf(key.Born, o); l.claim(line, key.Born) {
				l.changes = append(l.changes, change{line: line})
			}
		}
	}
	waiting := 0
	for _, o := range want {
		if !l.settleBornIn(n, s, o, changed) {
			waiting++
		}
	}
	if delete(l.waits, n); waiting > 0 {
		l.waits[n] = waiting
	}
}

// settleBornIn does so for one space; false: there is no room.
func (l *ledger) settleBornIn(n *node, s *sighting, o key.Object, changed bool) bool {
	line := lineOf(key.Born, o)
	i := slices.IndexFunc(n.born, func(b bornIn) bool { return b.space == o.Space })
	there := i >= 0
	switch {
	case there && (s == nil || !changed):
		return true
	case there:
		l.born.sub(n.born[i].size)
		l.freed = l.freed || n.size < n.born[i].size
		n.born = slices.Delete(n.born, i, i+1)
	case s == nil:
		if _, stored := l.unclaimed[line]; stored || l.holds(n.size) {
			l.needs[n] = struct{}{}
			return true
		}
		return false
	default:
		there = l.claim(line, key.Born)
	}
	if !l.holds(n.size) {
		if there {
			l.freed = true
			l.changes = append(l.changes, change{line: line})
		}
		return false
	}
	l.born.add(n.size)
	n.born = append(n.born, bornIn{o.Space, n.size})
	l.changes = append(l.changes, change{line, s.report(o, "")})
	return true
}

// dropBorn drops one of a node's reports.
func (l *ledger) dropBorn(n *node, i int) {
	at := n.born[i]
	n.born = slices.Delete(n.born, i, i+1)
	l.born.sub(at.size)
	l.freed = true
	for _, r := range l.sourcesIn(at.space, n) {
		l.changes = append(l.changes, change{line: lineOf(key.Born, r)})
	}
}

// sourcesIn are what a node may be called in a space: by its rules, or by those before.
func (l *ledger) sourcesIn(s key.Space, n *node) (all []key.Object) {
	for i := range l.asks.rules {
		if r := &l.asks.rules[i]; r.space == s {
			if o, ok := r.source(l.asks.placing, n.identity()); ok && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	if o, ok := l.asks.placing.From(s, n.identity()); ok && !slices.Contains(all, o) {
		all = append(all, o)
	}
	return all
}

// ask changes what is asked for, and how much may come back.
func (l *ledger) ask(a *asks, most limits) {
	l.limits, l.freed = most, true
	for _, k := range l.kinds {
		for _, n := range k.nodes {
			for i := range slices.Backward(n.born) {
				if !hasSpace(a.of(n.identity()), n.born[i].space) {
					l.dropBorn(n, i) // by the names that it has now
				}
			}
		}
	}
	l.asks = a
	l.dropUnclaimed(func(r key.Report) bool { return r.Origin == key.Born && !l.mayBe(r) })
	l.shrink()
	for _, k := range l.kinds {
		for _, n := range k.nodes {
			l.settleBorn(n, nil, false)
		}
	}
	l.conclude()
}

// mayBe says that a report in the store may be of what is asked for.
func (l *ledger) mayBe(r key.Report) bool {
	return slices.Contains(l.asks.of(l.asks.placing.At(r.Object)), r.Object)
}

// shrink drops the last, by name, of what is more than may come back.
func (l *ledger) shrink() {
	if l.born.objects <= l.limits.objects && l.born.bytes <= l.limits.bytes {
		return
	}
	all := l.all(func(n *node) bool { return len(n.born) > 0 })
	slices.Reverse(all)
	for _, n := range all {
		for len(n.born) > 0 && (l.born.objects > l.limits.objects || l.born.bytes > l.limits.bytes) {
			l.dropBorn(n, len(n.born)-1)
		}
	}
}

// refill has the first, by name, of those that wait read again, as far as there is room.
func (l *ledger) refill() {
	if !l.freed {
		return
	}
	l.freed = false
	room := l.limits.objects - l.born.objects - len(l.needs)
	bytes := l.limits.bytes - l.born.bytes
	for _, n := range l.all(func(n *node) bool { return l.waits[n] > 0 }) {
		if room <= 0 {
			return
		}
		if int64(n.size) <= bytes {
			l.needs[n] = struct{}{}
			bytes -= int64(n.size)
			room--
		}
	}
}

// all are the nodes that which returns true for, in the order of their names.
func (l *ledger) all(which func(*node) bool) (all []*node) {
	for _, k := range l.kinds {
		for _, n := range k.nodes {
			if which(n) {
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// byName compares the names of nodes. A limit may keep very many waiting, so it makes no text.
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

// waiting is how many reports wait for room.
func (l *ledger) waiting() (n int) {
	for _, more := range l.waits {
		n += more
	}
	return n
}
