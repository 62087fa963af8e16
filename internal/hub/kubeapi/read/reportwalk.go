package read

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// world is the state of the table at a revision: a snapshot of a later one, and what rows
// were that have changed in between, nil for those that were not there.
type world struct {
	snap   *table.Snapshot
	before map[string]*table.Row
	// keys are those of before, in order.
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

// some are the first n rows with a prefix from a key on.
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

// each calls fn for the objects of a query from a place on, in the order of places, until it
// returns false.
func (l reportsLens) each(w world, q query, start string, fn func(*table.Row) bool) {
	asked, ok := l.asked(q)
	if !ok {
		return
	}
	if asked.Location != "" && asked.Space != "" && asked.Name != "" && (asked.Namespace != "" || !q.namespaced) {
		p := spot{asked.Location, asked.Space, strings.TrimPrefix(asked.Namespace+"/"+asked.Name, "/")}
		if row := p.make(q.resource, w.get); row != nil && p.String() >= start {
			fn(row)
		}
		return
	}
	first := spot{}
	if parts := strings.SplitN(start, "/", 3); len(parts) == 3 {
		first = spot{key.Location(parts[0]), key.Space(parts[1]), parts[2]}
	}
	w.pairs(asked, first, func(at key.Location, s key.Space) bool {
		from := ""
		if at == first.location && s == first.space {
			from = first.rest
		}
		return w.merge(q, asked, at, s, from, fn)
	})
}

// pairs calls fn for each location that reports about a space, and the space, as far as they
// are asked for, from a spot on. It skips the reports of each at the cost of one look-up.
func (w world) pairs(asked key.Called, first spot, fn func(key.Location, key.Space) bool) {
	prefix := key.Reports.Prefix()
	if asked.Location != "" {
		prefix = key.LocationReports(asked.Location)
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
		at, s, _, ok := key.ReportOf(rows[0].Key)
		if !ok {
			from = rows[0].Key + "\x00"
			continue
		}
		if asked.Space != "" && s != asked.Space {
			if want := key.SpaceReports(at, asked.Space); want > rows[0].Key {
				from = want
			} else {
				from = key.After(key.LocationReports(at))
			}
			continue
		}
		if !fn(at, s) {
			return
		}
		from = key.After(key.SpaceReports(at, s))
	}
}

// stream has the reports of one origin, in order, some at a time.
type stream struct {
	prefix, from string
	rows         []*table.Row
	over         bool
}

// streamed is how many rows a stream reads at once.
const streamed = 64

// next is the [NAMESPACE/]NAME of the stream's next report behind the prefix of its
// resource; false if there is none.
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

// merge calls fn for what one location reports about one space, by name.
func (w world) merge(q query, asked key.Called, at key.Location, s key.Space, start string, fn func(*table.Row) bool) bool {
	var streams [len(origins)]stream
	var resources [len(origins)]string
	for i, origin := range origins {
		resources[i] = key.ReportPrefix(at, s, origin, q.resource)
		streams[i].prefix = resources[i]
		if asked.Namespace != "" {
			streams[i].prefix += asked.Namespace + "/"
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
		p := spot{at, s, least}
		if !p.is(asked) {
			continue
		}
		if row := p.make(q.resource, w.get); row != nil && !fn(row) {
			return false
		}
	}
}

// spotsOf are, for each step, where the objects are that it may have changed, in a world of
// the last. An object that was placed at very many locations is looked up at each of them for
// which something changed; what is kept are those that have reported it.
func (l reportsLens) spotsOf(w world, q query, asked key.Called, steps []table.Step) []map[spot]bool {
	touched := map[string]bool{} // reports
	for _, step := range steps {
		for _, c := range step.Changes {
			if k := c.Row().Key; key.ClassOf(k) == key.Reports {
				touched[k] = true
			}
		}
	}
	spots := make([]map[spot]bool, len(steps))
	for i, step := range steps {
		spots[i] = map[spot]bool{}
		for _, c := range step.Changes {
			isReport := key.ClassOf(c.Row().Key) == key.Reports
			for _, p := range l.spots(c) {
				if !p.is(asked) || spots[i][p] {
					continue
				}
				report := key.Report{Location: p.location, Origin: key.Placed, Object: p.object(q.resource)}.Key()
				if isReport || touched[report] || w.get(report) != nil {
					spots[i][p] = true
				}
			}
		}
	}
	return spots
}

// composed are the changes of the view's objects that steps up to a revision made. What an
// object is made of besides what changed is taken as it was then: from the table as it is
// now, and then back, step by step.
func (r *reader) composed(q query, steps []table.Step, upTo int64) ([]table.Step, error) {
	l, ok := r.lens.(reportsLens)
	if !ok || len(steps) == 0 {
		return steps, nil
	}
	asked, ok := l.asked(q)
	if !ok {
		return nil, nil
	}
	w := world{snap: r.server.config.Table.Snapshot(), before: map[string]*table.Row{}}
	if w.snap.Rev > upTo {
		if w.before, ok = r.changedSince(q, upTo, w.snap.Rev); !ok {
			return nil, table.ErrExpired
		}
	}
	spots := l.spotsOf(w, q, asked, steps)
	made := make([]table.Step, 0, len(steps))
	for i, of := range slices.Backward(steps) {
		changes := map[spot]table.Change{}
		for p := range spots[i] {
			changes[p] = table.Change{Cur: p.make(q.resource, w.get)}
		}
		for _, c := range of.Changes {
			w.before[c.Row().Key] = c.Prev
		}
		step := table.Step{Rev: of.Rev}
		for _, p := range slices.SortedFunc(maps.Keys(changes), func(a, b spot) int { return cmp.Compare(a.String(), b.String()) }) {
			if c := (table.Change{Prev: p.make(q.resource, w.get), Cur: changes[p].Cur}); c.Prev != nil || c.Cur != nil {
				step.Changes = append(step.Changes, c)
			}
		}
		made = append(made, step)
	}
	slices.Reverse(made)
	return made, nil
}
