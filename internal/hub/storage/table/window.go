package table

import (
	"cmp"
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// A window keeps the recent steps of one part of the log, bounded by number
// and by bytes. Parts have windows of their own so that a stream of reports or
// Events does not shorten what watchers of objects can resume from.
type window struct {
	// floor is the oldest revision that can be resumed: every step above it is here.
	floor    int64
	steps    []Step
	bytes    int
	maxSteps int
	maxBytes int
}

const (
	objectWindow = iota
	reportWindow
	eventWindow
	windowCount
)

// windowSet says of each window whether it is in the set.
type windowSet [windowCount]bool

// floor is the oldest revision from which all windows of a set can be resumed.
func (t *Table) floor(of windowSet) (floor int64) {
	for i, in := range of {
		if in {
			floor = max(floor, t.windows[i].floor)
		}
	}
	return floor
}

// after returns the steps of some windows after a revision, in order; ok is false if some of
// them are gone. Those of one window are not copied.
func (t *Table) after(of windowSet, rev int64) (steps []Step, ok bool) {
	for i, in := range of {
		if !in {
			continue
		}
		more, ok := t.windows[i].after(rev)
		if !ok {
			return nil, false
		}
		steps = mergeSteps(steps, more)
	}
	return steps, true
}

// mergeSteps are the steps of two windows. A revision that both have is one step.
func mergeSteps(a, b []Step) []Step {
	if len(a) == 0 {
		return b
	}
	merged := make([]Step, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Rev < b[0].Rev:
			merged, a = append(merged, a[0]), a[1:]
		case a[0].Rev > b[0].Rev:
			merged, b = append(merged, b[0]), b[1:]
		default:
			merged = append(merged, Step{a[0].Rev, slices.Concat(a[0].Changes, b[0].Changes)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// windowOf is the window for changes of a key.
func windowOf(k string) int {
	switch key.ClassOf(k) {
	case key.Reports:
		return reportWindow
	case key.Objects:
		if r, _ := key.ResourceOf(k); isEvent(r) {
			return eventWindow
		}
	}
	return objectWindow
}

// isEvent says whether GROUP/RESOURCE is that of Events or Leases: they change all the
// time and are never placed.
func isEvent(resource string) bool {
	switch resource {
	case "core/events", "events.k8s.io/events", "coordination.k8s.io/leases":
		return true
	}
	return false
}

func (w *window) append(s Step) {
	w.steps = append(w.steps, s)
	w.bytes += stepSize(s)
	drop := 0
	for drop < len(w.steps) && (len(w.steps)-drop > w.maxSteps || w.bytes > w.maxBytes) {
		w.floor = w.steps[drop].Rev
		w.bytes -= stepSize(w.steps[drop])
		drop++
	}
	if drop > 0 {
		clear(w.steps[:drop])
		w.steps = w.steps[drop:]
	}
}

// after returns the steps after a revision; ok is false if some of them are gone.
func (w *window) after(rev int64) (steps []Step, ok bool) {
	if rev < w.floor {
		return nil, false
	}
	i, found := slices.BinarySearchFunc(w.steps, rev, compareRev)
	if found {
		i++
	}
	return w.steps[i:], true
}

func compareRev(s Step, rev int64) int { return cmp.Compare(s.Rev, rev) }

// stepSize counts what a step keeps alive: the previous entries and, until the
// next change, the current ones.
func stepSize(s Step) int {
	const overhead = 64
	n := overhead
	for _, c := range s.Changes {
		n += overhead
		if c.SameEntry() {
			continue
		}
		if c.Prev != nil {
			n += c.Prev.size()
		}
		if c.Cur != nil {
			n += c.Cur.size()
		}
	}
	return n
}
