package summaries

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/protocol/key"
)

// look looks at what a key is of: an object at all its locations, or at one. It does so for
// one Summary, or for all if it is nil, and says what it has cost.
func (w *work) look(s *space, k string, only *summary) (cost int) {
	w.config.Work.Begin(k)
	if o, err := key.ParseObject(k); err == nil {
		return costOfLook + w.lookAtObject(s, o, only)
	}
	r, err := key.ParseReport(k)
	switch {
	case err != nil:
	case r.Origin != key.Placed:
		cost = w.lookAtReported(s, r, only)
	case s.placed[r.Path()] != nil:
		seen := w.seePlaced(r.Object)
		if seen.as != nil && seen.as.Has(r.Location) {
			matching := slices.DeleteFunc(s.those(v1alpha1.SummaryDownsynced, only), func(m *summary) bool { return !m.tests.Match(w, r.Object, seen.row) })
			cost += seen.contribute(s, matching, r.Location)
		}
	}
	return costOfLook + cost
}

// those are the Summaries of a source that can be used; only one if it is given.
func (s *space) those(from v1alpha1.SummarySource, only *summary) (all []*summary) {
	if only != nil {
		return []*summary{only}
	}
	for _, m := range s.summaries {
		if m.from == from && m.definition != nil {
			all = append(all, m)
		}
	}
	return all
}

// lookAtObject looks at an object of the space at all its locations.
func (w *work) lookAtObject(s *space, o key.Object, only *summary) (cost int) {
	seen := w.seePlaced(o)
	before := s.placed[seen.path]
	if before != nil && before != seen.as {
		only = nil // what is left behind is so for all
	}
	var matching []*summary
	for _, m := range s.those(v1alpha1.SummaryDownsynced, only) {
		is := seen.as != nil && m.tests.Match(w, o, seen.row)
		if is {
			matching = append(matching, m)
		}
		if before != nil && (!is || before != seen.as) {
			for _, l := range before.Members() {
				if !is || !seen.as.Has(l) {
					w.set(s, m, aggregate.Pair{Path: seen.path, Location: l}, aggregate.Contribution{})
				}
			}
		}
	}
	switch {
	case len(matching) > 0:
		for _, l := range seen.as.Members() {
			cost += seen.contribute(s, matching, l)
		}
		s.placed[seen.path] = seen.as
	case only == nil:
		delete(s.placed, seen.path)
	}
	return cost
}

// lookAtReported looks at what a location reports that was not placed there.
func (w *work) lookAtReported(s *space, r key.Report, only *summary) int {
	from := v1alpha1.SummaryUpsynced
	if r.Origin == key.Owned {
		from = v1alpha1.SummaryAssociated
	}
	seen := w.seeReported(r)
	var matching []*summary
	for _, m := range s.those(from, only) {
		if seen.row != nil && m.tests.Match(w, r.Object, seen.row) {
			matching = append(matching, m)
		} else {
			w.set(s, m, aggregate.Pair{Path: seen.path, Location: r.Location}, aggregate.Contribution{})
		}
	}
	return seen.contribute(s, matching, r.Location)
}

// set replaces what a pair contributes to a Summary.
func (w *work) set(s *space, m *summary, p aggregate.Pair, c aggregate.Contribution) {
	if m.state == nil {
		m.missed = true
		return
	}
	before := m.state.Bytes()
	changed := m.state.Set(p, c)
	s.bytes += m.state.Bytes() - before
	if m.state.Full() || s.bytes > maxSpaceBytes && m.state.Bytes() > before {
		s.drop(m)
		m.until = w.now.Add(tryAgain)
		changed = true
	}
	if changed {
		w.mark(m)
	}
}
