package read

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// world is the state of the table at a revision. It consists of a snapshot of a later revision, and
// the rows that have changed in between as they were before; nil for rows that did not exist.
type world struct {
	snap   *table.Snapshot
	before map[string]*table.Row
	// keys are the sorted keys of before.
	keys []string
}

func newWorld(snap *table.Snapshot, before map[string]*table.Row) world {
	return world{snap, before, slices.Sorted(maps.Keys(before))}
}

func (w world) get(k string) *table.Row {
	if row, ok := w.before[k]; ok {
		return row
	}
	return w.snap.Get(k)
}

// some returns the first n rows with a prefix, starting at a key.
func (w world) some(prefix, from string, n int) (rows []*table.Row) {
	from = max(prefix, from)
	w.snap.AscendFrom(from, func(row *table.Row) bool {
		if !strings.HasPrefix(row.Key, prefix) {
			return false
		}
		if _, changed := w.before[row.Key]; !changed {
			rows = append(rows, row)
		}
		return len(rows) < n
	})
	i, _ := slices.BinarySearch(w.keys, from)
	found := len(rows)
	for ; i < len(w.keys) && strings.HasPrefix(w.keys[i], prefix) && len(rows) < found+n; i++ {
		if row := w.before[w.keys[i]]; row != nil {
			rows = append(rows, row)
		}
	}
	if len(rows) > found {
		slices.SortFunc(rows, func(a, b *table.Row) int { return cmp.Compare(a.Key, b.Key) })
	}
	return rows[:min(n, len(rows))]
}

func (l reportsLens) now(t *table.Table, q query) state {
	snapshot := t.Snapshot()
	return l.past(world{snap: snapshot}, q, snapshot.Rev)
}

// past returns the state of a query in a world of a revision.
func (l reportsLens) past(w world, q query, rev int64) state {
	return state{rev, func(start string, fn func(*table.Row) bool) { l.each(w, q, start, fn) }}
}

// each calls fn for the objects of a query in the order of places, starting at a place, until fn
// returns false.
func (l reportsLens) each(w world, q query, start string, fn func(*table.Row) bool) {
	target, ok := l.target(q)
	if !ok {
		return
	}
	if target.Location != "" && target.Space != "" && target.Name != "" && (target.Namespace != "" || !q.namespaced) {
		p := position{target.Location, target.Space, strings.TrimPrefix(target.Namespace+"/"+target.Name, "/")}
		if row := p.make(q.resource, w.get); row != nil && p.String() >= start {
			fn(row)
		}
		return
	}
	first := position{}
	if segments := strings.SplitN(start, "/", 3); len(segments) == 3 {
		first = position{key.Location(segments[0]), key.Space(segments[1]), segments[2]}
	}
	w.pairs(target, first, func(location key.Location, s key.Space) bool {
		from := ""
		if location == first.location && s == first.space {
			from = first.rest
		}
		return w.merge(q, target, location, s, from, fn)
	})
}

// pairs calls fn for each location and space in the target for which there are reports, starting
// at a position. It skips the reports of each pair with one lookup.
func (w world) pairs(target key.Called, first position, fn func(key.Location, key.Space) bool) {
	prefix := key.Reports.Prefix()
	if target.Location != "" {
		prefix = key.LocationReports(target.Location)
	}
	from := prefix
	if first.location != "" {
		from = max(from, key.SpaceReports(first.location, first.space))
	}
	for {
		rows := w.some(prefix, from, 1)
		if len(rows) == 0 {
			return
		}
		location, s, _, ok := key.ReportOf(rows[0].Key)
		if !ok {
			from = rows[0].Key + "\x00"
			continue
		}
		if target.Space != "" && s != target.Space {
			if want := key.SpaceReports(location, target.Space); want > rows[0].Key {
				from = want
			} else {
				from = key.After(key.LocationReports(location))
			}
			continue
		}
		if !fn(location, s) {
			return
		}
		from = key.After(key.SpaceReports(location, s))
	}
}

// stream reads the reports of one origin in order, in batches.
type stream struct {
	prefix, from string
	rows         []*table.Row
	over         bool
}

// streamed is the size of a batch.
const streamed = 64

// next returns [NAMESPACE/]NAME of the stream's next report, from its key behind the prefix
// resource; ok is false at the end.
func (s *stream) next(w world, resource string) (rest string, ok bool) {
	if len(s.rows) == 0 && !s.over {
		s.rows = w.some(s.prefix, s.from, streamed)
		s.over = len(s.rows) < streamed
		if n := len(s.rows); n > 0 {
			s.from = s.rows[n-1].Key + "\x00"
		}
	}
	if len(s.rows) == 0 {
		return "", false
	}
	return s.rows[0].Key[len(resource):], true
}

// merge calls fn for the objects that one location reports about one space, in the order of names.
func (w world) merge(q query, target key.Called, location key.Location, s key.Space, start string, fn func(*table.Row) bool) bool {
	var streams [len(origins)]stream
	var resources [len(origins)]string
	for i, origin := range origins {
		resources[i] = key.ReportPrefix(location, s, origin, q.resource)
		streams[i].prefix = resources[i]
		if target.Namespace != "" {
			streams[i].prefix += target.Namespace + "/"
		}
		streams[i].from = resources[i] + start
	}
	for {
		least, found := "", false
		for i := range streams {
			if rest, ok := streams[i].next(w, resources[i]); ok && (!found || rest < least) {
				least, found = rest, true
			}
		}
		if !found {
			return true
		}
		for i := range streams {
			if rest, ok := streams[i].next(w, resources[i]); ok && rest == least {
				streams[i].rows = streams[i].rows[1:]
			}
		}
		p := position{location, s, least}
		if !p.matches(target) {
			continue
		}
		if row := p.make(q.resource, w.get); row != nil && !fn(row) {
			return false
		}
	}
}

// positionsOf returns, for each step, the positions of the objects that it may have changed, in the
// world of the last step. An object can be assigned to very many locations. Only locations at which
// it changed are looked up, and only those that have reported it are returned.
func (l reportsLens) positionsOf(w world, q query, target key.Called, steps []table.Step) []map[position]bool {
	touched := map[string]bool{} // reports
	for _, step := range steps {
		for _, c := range step.Changes {
			if k := c.Row().Key; key.ClassOf(k) == key.Reports {
				touched[k] = true
			}
		}
	}
	positions := make([]map[position]bool, len(steps))
	for i, step := range steps {
		positions[i] = map[position]bool{}
		for _, c := range step.Changes {
			isReport := key.ClassOf(c.Row().Key) == key.Reports
			for _, p := range l.positions(c) {
				if !p.matches(target) || positions[i][p] {
					continue
				}
				report := key.Report{Location: p.location, Origin: key.Placed, Object: p.object(q.resource)}.Key()
				if isReport || touched[report] || w.get(report) != nil {
					positions[i][p] = true
				}
			}
		}
	}
	return positions
}
