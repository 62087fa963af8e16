package table

import (
	"cmp"
	"slices"

	"orrery.dev/orrery/internal/protocol/key"
)

// A window has the recent steps of one class of keys, limited by number and bytes. Classes have windows
// of their own, so that many reports or Events do not displace steps from which watchers of objects
// resume.
type window struct {
	// floor is the oldest revision from which readers can resume: the window has every step above it.
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

// windowSet is a set of windows.
type windowSet [windowCount]bool

// floor returns the oldest revision from which readers of all windows of a set can resume.
func (t *Table) floor(windows windowSet) (floor int64) {
	for i, isSelected := range windows {
		if isSelected {
			floor = max(floor, t.windows[i].floor)
		}
	}
	return floor
}

// after returns the steps of a set of windows after a revision, in order. ok is false if a window no
// longer has all of them. The steps of a single window are not copied.
func (t *Table) after(windows windowSet, rev int64) (steps []Step, ok bool) {
	for i, isSelected := range windows {
		if !isSelected {
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

// mergeSteps merges the steps of two windows. Steps of the same revision become one.
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

// windowOf returns the window for changes of a key.
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

// isEvent reports whether GROUP/RESOURCE is that of Events or Leases, which change often and are never
// placed.
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

// after returns the steps after a revision. ok is false if the window no longer has all of them.
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

// stepSize returns the approximate number of bytes that a step keeps in memory: those of the previous
// entries, and those of the current ones, which the window alone keeps after the next change.
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
