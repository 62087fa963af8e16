package summaries

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/protocol/key"
)

// advance does some of a task, up to a cost that the last pair may exceed.
func (w *work) advance(s *space, t *task, most int) (cost int, isDone bool) {
	w.config.Work.Begin(t.key)
	cost = costOfLook
	seen := w.see(s, t.key)
	if seen == nil || t.only != nil && t.only.state == nil { // which was dropped
		return cost, true
	}
	if !t.isPlanned {
		cost += w.plan(s, t, seen)
	}
	for ; cost < most; cost += costOfRemoval {
		m, l, ok := t.removals.next()
		if !ok {
			break
		}
		if !t.matches(m) || seen.isObject && !t.assigned.Contains(l) {
			w.set(s, m, aggregate.Pair{Path: seen.path, Location: l}, aggregate.Contribution{})
		}
	}
	if cost >= most {
		return cost, false
	}
	if seen.isObject {
		s.recordPlaces(t, seen)
	}
	for cost < most {
		m, l, ok := t.additions.next()
		if !ok {
			return cost, true
		}
		if seen.isThere() && (!seen.isObject || seen.as.Contains(l)) {
			cost += seen.contribute(s, m, l)
			continue
		}
		// It has gone since the task was planned. The task of that change forgets the object where this
		// one counts it.
		w.set(s, m, aggregate.Pair{Path: seen.path, Location: l}, aggregate.Contribution{})
		cost += costOfRemoval
	}
	return cost, false
}

// plan finds out which Summaries match, and returns what that has cost.
func (w *work) plan(s *space, t *task, seen *sight) (cost int) {
	before := s.placed[seen.path]
	if seen.isObject && before != nil && before != seen.as {
		t.only = nil // the locations that the object has left are to be forgotten by all
	}
	candidates := s.candidates(seen.from, t.only)
	t.isPlanned, t.assigned, t.matching = true, seen.as, map[*summary]struct{}{}
	var others []*summary
	for _, m := range candidates {
		cost += m.tests.Weight()/requirementsPerCost + 1
		if seen.isThere() && m.tests.Match(w, seen.object, seen.row) {
			t.matching[m] = struct{}{}
			t.additions.summaries = append(t.additions.summaries, m)
		} else {
			others = append(others, m)
		}
	}
	t.additions.locations = seen.locations
	switch {
	case !seen.isObject && seen.from != v1alpha1.SummaryDownsynced:
		t.removals = pairs{seen.locations, others, 0}
	case !seen.isObject || before == nil: // nothing is counted
	case before == seen.as:
		t.removals = pairs{before.Members(), others, 0}
	default:
		t.removals = pairs{before.Members(), candidates, 0}
	}
	return cost
}

// recordPlaces records the locations where an object is counted from now on: those at which it was assigned when
// the task was planned.
func (s *space) recordPlaces(t *task, seen *sight) {
	if len(t.matching) > 0 {
		s.placed[seen.path] = t.assigned
	} else if t.only == nil {
		delete(s.placed, seen.path)
	}
}

// candidates are the Summaries of a source that can be used; only one if it is given.
func (s *space) candidates(from v1alpha1.SummarySource, only *summary) (all []*summary) {
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

// see is the sight of what a key is of; nil: the space counts nothing of it.
func (w *work) see(s *space, k string) *sight {
	if o, err := key.ParseObject(k); err == nil {
		seen := w.seePlaced(o)
		if seen.isObject = true; seen.as != nil {
			seen.locations = seen.as.Members()
		}
		return seen
	}
	r, err := key.ParseReport(k)
	if err != nil {
		return nil
	}
	if r.Origin != key.Placed {
		return w.seeReported(r)
	}
	if s.placed[r.Path()] == nil {
		return nil
	}
	seen := w.seePlaced(r.Object)
	if seen.as == nil || !seen.as.Contains(r.Location) {
		return nil
	}
	seen.locations = []key.Location{r.Location}
	return seen
}
