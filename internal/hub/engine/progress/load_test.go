package progress

import (
	"fmt"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// isClean checks that nothing is dirty.
func (w *world) isClean(when string) {
	w.Helper()
	if d := w.tracker.Dirty(); len(d.Placements)+len(d.Locations)+len(d.Ruling)+len(d.Moved) > 0 {
		w.Errorf("%s %+v is dirty", when, d)
	}
}

// TestNoPartOfALoad: nothing is dirty while a part of a state is known: counts would be too low.
func TestNoPartOfALoad(t *testing.T) {
	w := newWorld(t, digest, "s1", "s2")
	w.put(w.objects("s1", 3, "broken"))
	w.put(w.objects("s2", 3, "c1"))
	countAll(w.tracker)

	w.reset()
	w.applyChanges()
	w.isClean("after a request for one space")
	if d := countAll(w.tracker); len(d.Placements) != 3 || len(d.Ruling) != 1 || len(d.Locations) != 1 || len(d.Moved) == 0 {
		t.Errorf("in the end %+v is dirty", d)
	}

	w.tracker.Reset()
	for w.tracker.Work(t.Context()) {
	}
	w.isClean("before the state is observed")
	w.reset()
	if d := countAll(w.tracker); len(d.Placements) != 3 {
		t.Errorf("in the end %+v is dirty", d)
	}

	w.reset()
	applyInTurn(t.Context(), w.tracker)
	w.reset()
	w.tracker.mu.Lock()
	_, resets, isWhole := w.tracker.inbox.applied()
	if isWhole || resets == w.tracker.resets {
		t.Error("after a load during Work the state of the one before is taken for complete")
	}
	w.tracker.mu.Unlock()
	if d := countAll(w.tracker); len(d.Placements) != 3 {
		t.Errorf("in the end %+v is dirty", d)
	}
}

// TestBusyObject: an object that changes before all its pairs are evaluated keeps none of them, and no other
// object of its space, from being evaluated.
func TestBusyObject(t *testing.T) {
	const locations, calls = budget + 100, 10
	w := newWorld(t, digest, "s1")
	updates, names := map[string]any{}, []string{"a"}
	for i := range locations {
		names = append(names, fmt.Sprint("l", i))
		updates[objectAt(key.Root, v1alpha1.Group, "locations", "", names[i+1]).Key()] = map[string]any{}
	}
	updates[placementP("s1").Object().Key()] = map[string]any{"spec": v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: names}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"configmaps"}}}},
	}}
	w.put(updates)
	w.put(w.objects("s1", 1, "x"))
	countAll(w.tracker)
	w.put(w.objects("s1", 1, "broken"))
	w.tracker.Work(t.Context())
	w.put(w.objects("s1", 2, "broken"))
	for i := range calls {
		w.put(w.objects("s1", 1, []string{"broken", "c1"}[i%2]))
		w.tracker.Work(t.Context())
	}
	w.tracker.mu.Lock()
	defer w.tracker.mu.Unlock()
	for path, o := range w.tracker.objects {
		if o.counts.Held != locations+1 {
			t.Errorf("of %s %d pairs are counted as held, want %d", path, o.counts.Held, locations+1)
		}
	}
}

// TestBusySpace: a space that always has pairs that are due delays the counts of root after a load for a
// time that depends on its own size.
func TestBusySpace(t *testing.T) {
	const many, most = 2 * budget, 6
	w := newWorld(t, digest, "s1")
	w.put(w.objects("s1", many, "x"))
	countAll(w.tracker)
	w.reset()
	for i := range most {
		w.put(w.objects("s1", many, fmt.Sprint("y", i)))
		w.tracker.Work(t.Context())
		if d := w.tracker.Dirty(); len(d.Locations) > 0 {
			return
		}
	}
	t.Errorf("after %d pairs were evaluated the location is still held", most*budget)
}

// TestIncompleteCounts: the counts of a Placement are incomplete while pairs of its space are due, and the
// Placement is dirty after that, so that no status has them beside a new generation.
func TestIncompleteCounts(t *testing.T) {
	w := newWorld(t, digest, "s1", "s2")
	w.put(w.objects("s1", 1, "x"))
	countAll(w.tracker)
	w.put(w.objects("s1", 1, "broken"))
	w.applyChanges()
	if !w.tracker.Placement(t.Context(), placementP("s1")).Incomplete || w.tracker.Placement(t.Context(), placementP("s2")).Incomplete {
		t.Error("want incomplete counts of s1 alone")
	}
	if d := countAll(w.tracker); !slices.Contains(d.Placements, placementP("s1")) || w.tracker.Placement(t.Context(), placementP("s1")).Incomplete {
		t.Errorf("after Work %+v is dirty", d)
	}
}
