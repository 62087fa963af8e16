package progress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestBusySpaceIsShown: the Placement of a space that has due pairs all the time is shown within a number of
// evaluations that depends on the size of the space. Its counts are never better than the truth: a due pair is
// in no state.
func TestBusySpaceIsShown(t *testing.T) {
	const many = 2 * budget
	const most = maxRounds * 2 * many // evaluations
	w := newWorld(t, digest, "s1")
	w.put(w.objects("s1", many, "broken"))
	countAll(w.tracker)
	shown := 0
	for i := range 4 * most / budget {
		w.put(w.objects("s1", many, fmt.Sprint("y", i))) // none is held any more
		if !w.tracker.Work(t.Context()) {
			t.Fatal("the space is not busy")
		}
		isDirty := slices.Contains(w.tracker.Dirty().Placements, placementP("s1"))
		counts := w.tracker.Placement(t.Context(), placementP("s1"))
		if isDirty == counts.Incomplete && shown == 0 {
			t.Errorf("after %d evaluations the Placement is dirty: %v, with the counts %+v", (i+1)*budget, isDirty, counts)
		}
		if !isDirty {
			continue
		}
		shown++
		if counts.Incomplete || counts.Held > 0 || counts.Assigned != many || counts.Objects != many {
			t.Errorf("the shown counts are %+v", counts)
		}
	}
	if shown == 0 || shown > 4*maxRounds { // once a round
		t.Errorf("in %d evaluations the Placement was shown %d times", 4*most, shown)
	}
	d := countAll(w.tracker)
	if counts := w.tracker.Placement(t.Context(), placementP("s1")); !slices.Contains(d.Placements, placementP("s1")) || counts.Incomplete || counts.Assigned != many {
		t.Errorf("in the end %+v is dirty, with the counts %+v", d.Placements, counts)
	}
}

// TestWorkIsBounded: one call of Work evaluates a bounded number of pairs, however many spaces have some, and all
// spaces have their turns.
func TestWorkIsBounded(t *testing.T) {
	const spaces, objects = 300, 16
	rendered := map[key.Space]int{}
	total := 0
	var names []key.Space
	for i := range spaces {
		names = append(names, key.Space(fmt.Sprintf("s%03d", i)))
	}
	w := newWorld(t, func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		s, _, _, _ := key.Split(e.Key)
		rendered[s]++
		total++
		return digest(e, c)
	}, names...)
	all := map[string]any{}
	for _, s := range names {
		maps.Copy(all, w.objects(s, objects, "x"))
	}
	w.put(all)
	for calls := 0; ; calls++ {
		total = 0
		more := w.tracker.Work(t.Context())
		if total > budget {
			t.Fatalf("call %d evaluated %d pairs, want %d at most", calls, total, budget)
		}
		if !more {
			break
		}
		if calls > 2*spaces*objects/budget {
			t.Fatalf("after %d calls there is still more", calls)
		}
	}
	for _, s := range names {
		if rendered[s] != objects {
			t.Errorf("of %s %d pairs were evaluated, want %d", s, rendered[s], objects)
		}
	}
}

// TestWorkEndsWithItsContext: after the end of its context, Work, Object and the other methods that tenants cause
// work for do next to nothing.
func TestWorkEndsWithItsContext(t *testing.T) {
	const locations, objects = 200, 10
	ctx, cancel := context.WithCancel(t.Context())
	rendered := 0
	w := newWorld(t, func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		rendered++
		cancel()
		return digest(e, c)
	}, "s1")
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
	w.put(w.objects("s1", objects, "broken"))
	check := func(what string, work func()) {
		t.Helper()
		rendered = 0
		ctx, cancel = context.WithCancel(t.Context()) //nolint:fatcontext // each check has a context of its own
		work()
		if rendered > 1 {
			t.Errorf("%s rendered %d times after its context had ended", what, rendered-1)
		}
	}
	check("Work", func() {
		for !w.tracker.Work(ctx) || rendered == 0 {
		}
	})
	path := objectAt("s1", "", "configmaps", "s1", "0").Path()
	check("Object", func() {
		if got, err := w.tracker.Object(ctx, path); err != nil || got.Assigned != locations+1 || got.Held > 2 {
			t.Errorf("the counts are %+v, %v", got, err)
		}
	})
	cancel = func() {}
	countAll(w.tracker)
	check("Placement", func() {
		if got := w.tracker.Placement(ctx, placementP("s1")); got.Held != objects*(locations+1) || len(got.Errors) > 1 {
			t.Errorf("the counts are %+v", got)
		}
	})
	w.put(w.objects("s1", 1, "x"))
	cancel()
	if _, err := w.tracker.Unassigned(ctx, "s1/"); err != nil { // few changes
		t.Error(err)
	}
	w.put(w.objects("s1", 2*maxApplied, "x"))
	if _, err := w.tracker.Unassigned(ctx, "s1/"); err == nil {
		t.Error("all changes were applied after the end of the context")
	}
	w.put(w.objects("s1", 2*maxApplied, "y"))
	if got, err := w.tracker.Object(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("counts that are not known are %+v, %v", got, err)
	}
}

// TestBusySpaceDelaysNoOther: while a space changes faster than its changes are applied, so that the context of
// each Work ends before it evaluates, another space is counted and shown. It has a minimum of evaluations each time
// it has its turn.
func TestBusySpaceDelaysNoOther(t *testing.T) {
	const objects, spaces = 4 * minBudget, 3 // root, too
	rendered := map[key.Space]int{}
	w := newWorld(t, func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		s, _, _, _ := key.Split(e.Key)
		rendered[s]++
		return digest(e, c)
	}, "s1", "s2")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.put(w.objects("s2", objects, "broken"))
	for call := range spaces * (2 + objects/minBudget) {
		w.put(w.objects("s1", 2*maxApplied, fmt.Sprint("y", call)))
		w.tracker.Work(ended)
		if slices.Contains(w.tracker.Dirty().Placements, placementP("s2")) && rendered["s2"] == objects {
			if got := w.tracker.Placement(t.Context(), placementP("s2")); got.Incomplete || got.Held != objects {
				t.Errorf("after %d calls the counts are %+v", call, got)
			}
			return
		}
	}
	t.Errorf("the other space is not shown; evaluated were %v", rendered)
}

// TestEditIsAppliedBefore: the counts of a Placement are incomplete until all changes up to its last edit are applied,
// however few at a time. A space that changes all the time delays that for no more than its own changes.
func TestEditIsAppliedBefore(t *testing.T) {
	const objects = 4 * maxApplied
	w := newWorld(t, digest, "s1", "s2")
	w.put(w.objects("s1", objects, "broken"))
	w.put(w.objects("s2", objects, "broken"))
	countAll(w.tracker)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	edited := map[string]any{}
	for _, s := range []key.Space{"s1", key.Root} {
		edited[placementP(s).Object().Key()] = map[string]any{"metadata": map[string]any{"generation": 2}, "spec": v1alpha1.PlacementSpec{}}
	}
	w.put(edited)
	isShown := map[key.Space]bool{}
	for call := range 8 * objects / minBudget {
		w.put(w.objects("s1", 1, fmt.Sprint("y", call)))
		w.tracker.Work(ended)
		dirty := w.tracker.Dirty().Placements
		for _, s := range []key.Space{"s1", key.Root} {
			got := w.tracker.Placement(t.Context(), placementP(s))
			if !got.Incomplete && got.Generation == 2 && got.Assigned > 0 {
				t.Fatalf("%s: after %d calls the counts of the edit are %+v", s, call, got)
			}
			isShown[s] = isShown[s] || slices.Contains(dirty, placementP(s)) && !got.Incomplete
		}
		if isShown["s1"] && isShown[key.Root] {
			return
		}
	}
	t.Errorf("the edit was shown in %v", isShown)
}

// TestRootIsShownAfterItWasOmitted: if the counts of root were omitted because of another space, the end of its round
// still counts when they no longer are.
func TestRootIsShownAfterItWasOmitted(t *testing.T) {
	own, other := &queue{rounds: maxRounds, isChanged: true}, &queue{rounds: maxRounds, isFirst: true}
	s := schedule{queues: map[key.Space]*queue{key.Root: own, "s1": other}}
	if !s.isOmitted(key.Root) {
		t.Error("root is shown before the first round of s1 has ended")
	}
	s.shown()
	other.isFirst = false
	if s.isOmitted(key.Root) {
		t.Error("root waits for the end of another round")
	}
	s.shown()
	if !s.isOmitted(key.Root) {
		t.Error("root is shown twice for one round")
	}
}

// TestBusyCustomizer: in a space that always has due pairs, a Customizer is counted only after each pair that was due
// because of its edit has been evaluated, however many others become due meanwhile. It is counted in bounded time.
func TestBusyCustomizer(t *testing.T) {
	const busy, quiet = budget, 2 * budget
	w := newWorld(t, digest, "s1")
	w.put(w.objects("s1", busy, "x"))
	countAll(w.tracker)
	c := objectAt("s1", "orrery.dev", "customizers", "", "c1")
	isShown, edit := false, int64(0)
	for call := range 40 * (busy + quiet) / budget {
		w.put(w.objects("s1", busy, fmt.Sprint("y", call)))
		if isShown && edit == 0 { // the rule of an edited Customizer fails for these
			failing := map[string]any{}
			for i := range quiet {
				failing[objectAt("s1", "", "configmaps", "s1", fmt.Sprint("quiet", i)).Key()] = map[string]any{"metadata": map[string]any{"uid": "u"}, "spec": "c1"}
			}
			w.put(failing)
			edit = w.rev
		}
		if !w.tracker.Work(t.Context()) {
			t.Fatal("the space is not busy")
		}
		isShown = isShown || !w.tracker.Placement(t.Context(), placementP("s1")).Incomplete
		if edit == 0 || !AreRulesCounted(w.tracker, c, edit) {
			continue
		}
		if failed := w.tracker.failedRules.pairs[c]; failed == nil || failed.Len() != quiet {
			t.Errorf("after %d calls the Customizer is counted with %+v, want %d failed pairs", call, w.tracker.Customizer(t.Context(), c), quiet)
		}
		return
	}
	t.Errorf("the Customizer is not counted; shown: %v", isShown)
}
