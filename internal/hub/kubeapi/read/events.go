package read

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// event is what one revision did to one object of a view, as a watch with a
// selection sees it.
type event struct {
	kind watch.EventType
	row  *table.Row // as it is, or was
}

// events are what a step did to the objects that a query and a selection choose, in the
// order of places.
func (r *reader) events(q query, s selection, step table.Step) []event {
	var events []event
	changes := step.Changes
	if !r.look.reports { // those are composed
		changes = r.merged(q, changes)
	}
	for _, c := range changes {
		if e, ok := r.event(s, c); ok {
			events = append(events, e)
		}
	}
	if r.look.shelf {
		writtenLast(events, step.Rev)
	}
	return events
}

// merged has one change for each place in the view. Two rows may trade a place in one
// revision: if one space's object goes, another's of the same identity may appear, and that
// is one change of one object.
func (r *reader) merged(q query, changes []table.Change) []table.Change {
	var mine []table.Change
	for _, c := range changes {
		if !q.about(c.Row().Key) {
			continue
		}
		if c.Prev != nil && !r.lens.holds(c.Prev) {
			c.Prev = nil
		}
		if c.Cur != nil && !r.lens.holds(c.Cur) {
			c.Cur = nil
		}
		if c.Prev != nil || c.Cur != nil {
			mine = append(mine, c)
		}
	}
	slices.SortStableFunc(mine, func(a, b table.Change) int {
		return strings.Compare(r.lens.place(a.Row()), r.lens.place(b.Row()))
	})
	merged := mine[:0]
	for _, c := range mine {
		if n := len(merged); n > 0 && r.lens.place(merged[n-1].Row()) == r.lens.place(c.Row()) {
			last := &merged[n-1]
			if c.Prev != nil {
				last.Prev = c.Prev
			}
			if c.Cur != nil {
				last.Cur = c.Cur
			}
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// event is the event of a change for a selection; ok is false if there is none.
func (r *reader) event(s selection, c table.Change) (e event, ok bool) {
	before, after := r.shown(c.Prev, s), r.shown(c.Cur, s)
	switch {
	case after && !before:
		return event{watch.Added, c.Cur}, true
	case before && !after:
		return event{watch.Deleted, c.Prev}, true
	case before && after && !r.looksSame(c):
		return event{watch.Modified, c.Cur}, true
	}
	return event{}, false
}

// looksSame says that clients of the view can't tell two shown rows apart.
func (r *reader) looksSame(c table.Change) bool {
	switch {
	case r.look.reports:
		return r.looksSameReported(c)
	case r.look.at == "":
		return c.SameEntry()
	}
	if c.SameEntry() && classAt(c.Prev, r.look.at) == classAt(c.Cur, r.look.at) {
		return true
	}
	if !sameSource(c.Prev, c.Cur) {
		return false
	}
	before, err := r.digest(c.Prev)
	if err != nil {
		return false
	}
	after, err := r.digest(c.Cur)
	return err == nil && before == after
}
