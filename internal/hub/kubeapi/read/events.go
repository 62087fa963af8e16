package read

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// event is the effect of one revision on one object of a view, for a watch with a selection.
type event struct {
	kind watch.EventType
	row  *table.Row // the current row, or the last one of a deleted object
}

// events returns the effects of a step on the objects that a query and a selection choose, in
// the order of places.
func (r *reader) events(q query, s selection, step table.Step) []event {
	var events []event
	changes := step.Changes
	if !r.display.reports { // composed has merged those
		changes = r.merged(q, changes)
	}
	for _, c := range changes {
		if e, ok := r.event(s, c); ok {
			events = append(events, e)
		}
	}
	if r.display.exportView {
		writtenLast(events, step.Rev)
	}
	return events
}

// merged returns one change for each place in the view. Two rows may exchange a place in one
// revision: when the object of one space is deleted, that of another space with the same identity
// may appear. For clients, this is one change of one object.
func (r *reader) merged(q query, changes []table.Change) []table.Change {
	var mine []table.Change
	for _, c := range changes {
		if !q.matches(c.Row().Key) {
			continue
		}
		if c.Prev != nil && !r.lens.contains(c.Prev) {
			c.Prev = nil
		}
		if c.Cur != nil && !r.lens.contains(c.Cur) {
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

// event returns the event of a change for a selection; ok is false if there is none.
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

// looksSame reports whether clients of the view can't distinguish the two rows of a change.
func (r *reader) looksSame(c table.Change) bool {
	switch {
	case r.display.reports:
		return r.looksSameReported(c)
	case r.display.location == "":
		return c.SameEntry()
	}
	if c.SameEntry() && classAt(c.Prev, r.display.location) == classAt(c.Cur, r.display.location) {
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
