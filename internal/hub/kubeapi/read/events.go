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
func (h *history) events(q query, s selection, step table.Step) []event {
	var events []event
	changes := step.Changes
	if !h.view.display.reports { // composed has merged those
		changes = h.merged(q, changes)
	}
	for _, c := range changes {
		if e, ok := h.event(s, c); ok {
			events = append(events, e)
		}
	}
	if h.view.display.exportView {
		writtenLast(events, step.Rev)
	}
	return events
}

// merged returns one change for each place in the view. Two rows may exchange a place in one
// revision: when the object of one space is deleted, that of another space with the same identity
// may appear. For clients, this is one change of one object.
func (h *history) merged(q query, changes []table.Change) []table.Change {
	var mine []table.Change
	for _, c := range changes {
		if !q.matches(c.Row().Key) {
			continue
		}
		if c.Prev != nil && !h.view.lens.contains(c.Prev) {
			c.Prev = nil
		}
		if c.Cur != nil && !h.view.lens.contains(c.Cur) {
			c.Cur = nil
		}
		if c.Prev != nil || c.Cur != nil {
			mine = append(mine, c)
		}
	}
	slices.SortStableFunc(mine, func(a, b table.Change) int {
		return strings.Compare(h.view.lens.place(a.Row()), h.view.lens.place(b.Row()))
	})
	merged := mine[:0]
	for _, c := range mine {
		if n := len(merged); n > 0 && h.view.lens.place(merged[n-1].Row()) == h.view.lens.place(c.Row()) {
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
func (h *history) event(s selection, c table.Change) (e event, ok bool) {
	before, after := h.view.shown(c.Prev, s), h.view.shown(c.Cur, s)
	switch {
	case after && !before:
		return event{watch.Added, c.Cur}, true
	case before && !after:
		return event{watch.Deleted, c.Prev}, true
	case before && after && !h.looksSame(c):
		return event{watch.Modified, c.Cur}, true
	}
	return event{}, false
}

// looksSame reports whether clients of the view can't distinguish the two rows of a change.
func (h *history) looksSame(c table.Change) bool {
	switch {
	case h.view.display.reports:
		return h.view.reports.looksSame(c)
	case h.view.display.location == "":
		return c.SameEntry()
	}
	if c.SameEntry() && classAt(c.Prev, h.view.display.location) == classAt(c.Cur, h.view.display.location) {
		return true
	}
	if !sameSource(c.Prev, c.Cur) {
		return false
	}
	before, err := h.view.digest(c.Prev)
	if err != nil {
		return false
	}
	after, err := h.view.digest(c.Cur)
	return err == nil && before == after
}

// writtenLast moves objects that were written at a revision behind the other events of it. The
// last event carries the revision, which the writer of the object received. The others, which
// entered or left the view by that write, carry an earlier one.
func writtenLast(events []event, rev int64) {
	slices.SortStableFunc(events, func(a, b event) int {
		switch x, y := a.row.ModRev == rev, b.row.ModRev == rev; {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	})
}
