package progress

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// world has spaces whose objects are all placed at one location.
type world struct {
	*testing.T
	table   *table.Writer
	tracker *Tracker
	rev     int64
}

var placementP = func(s key.Space) key.Placement { return key.Placement{Space: s, Name: "p"} }

func newWorld(t *testing.T, digest func(*table.Entry, *placement.Class) (wire.Sum, error), spaces ...key.Space) *world {
	w := &world{T: t, tracker: New(Config{Digest: digest})}
	w.table = table.New(table.Config{Deriver: placement.New(), Observer: w.tracker, WindowSteps: 10, WindowBytes: 1 << 20})
	updates := map[string]any{objectAt(key.Root, v1alpha1.Group, "locations", "", "a").Key(): map[string]any{}, key.Space("s2").Key(): map[string]any{}}
	spec := v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"configmaps"}}}},
	}
	for _, s := range spaces {
		updates[placementP(s).Object().Key()] = map[string]any{"spec": spec}
	}
	spec.Spaces = &v1alpha1.SpaceSelector{Names: []string{"s2"}}
	updates[placementP(key.Root).Object().Key()] = map[string]any{"spec": spec}
	w.put(updates)
	countAll(w.tracker)
	return w
}

// applyChanges applies the observed changes of space s1.
func (w *world) applyChanges() {
	w.Helper()
	if _, err := w.tracker.Unassigned(w.Context(), "s1/"); err != nil {
		w.Error(err)
	}
}

func (w *world) put(updates map[string]any) {
	w.Helper()
	w.rev++
	var all []table.Update
	for k, v := range updates {
		all = append(all, table.Update{Key: k, Value: mustJSON(v), CreateRev: 1, ModRev: w.rev})
	}
	if err := w.table.Apply(w.rev, all); err != nil {
		w.Fatal(err)
	}
}

// reset has the table loaded again.
func (w *world) reset() {
	var all []table.Update
	w.table.Snapshot().Ascend("", func(r *table.Row) bool {
		all = append(all, table.Update{Key: r.Key, Value: r.Value, CreateRev: r.CreateRev, ModRev: r.ModRev})
		return true
	})
	w.table.Reset(w.rev, all)
}

// objects are n objects of a space with a spec.
func (w *world) objects(s key.Space, n int, spec string) map[string]any {
	all := map[string]any{}
	for i := range n {
		all[objectAt(s, "", "configmaps", string(s), fmt.Sprint(i)).Key()] = map[string]any{"metadata": map[string]any{"uid": "u"}, "spec": spec}
	}
	return all
}

// TestReadersDoNotWait: while an object is rendered, all is answered that is about others.
func TestReadersDoNotWait(t *testing.T) {
	var w *world
	renders := 0
	meanwhile := func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		if s, _, _, _ := key.Split(e.Key); s != "s1" {
			return digest(e, c)
		}
		renders++
		limit.Returns(t, func() {
			w.tracker.Location("a")
			w.tracker.UnassignedAt("a")
			w.applyChanges()
			w.tracker.Placement(t.Context(), placementP("s2"))
			w.tracker.Customizer(t.Context(), CustomizerIn("s2", "c1"))
			if got, err := w.tracker.Object(t.Context(), objectAt("s2", "", "configmaps", "s2", "0").Path()); err != nil || got.Held != 1 {
				t.Errorf("meanwhile the other space has %d objects that are held, %v", got.Held, err)
			}
		}, "other objects are counted while one is rendered")
		return digest(e, c)
	}
	w = newWorld(t, meanwhile, "s1", "s2")
	w.put(w.objects("s2", 1, "c1"))
	w.put(w.objects("s1", 1, "broken"))
	countAll(w.tracker)
	if got := w.tracker.Placement(t.Context(), placementP("s1")); renders != 2 || got.Held != 1 || len(got.Errors) != 1 { // the second time for its text
		t.Errorf("after %d renderings the counts are %+v", renders, got)
	}
}

// TestSpacesShare: a space with very much to count does not keep others from being counted and shown. Its
// own Placements, and those of root after a Reset, are shown when all is counted.
func TestSpacesShare(t *testing.T) {
	const many = 3 * budget
	rendered := map[key.Space]int{}
	w := newWorld(t, func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		s, _, _, _ := key.Split(e.Key)
		rendered[s]++
		return digest(e, c)
	}, "s1", "s2")
	check := func(when string, want ...key.Placement) {
		t.Helper()
		clear(rendered)
		more := w.tracker.Work(t.Context())
		if d := w.tracker.Dirty(); !more || rendered["s1"] > budget || rendered["s2"] != 3 || !slices.Equal(d.Placements, want) {
			t.Errorf("%s %v were rendered and %+v is dirty, and there is more: %v", when, rendered, d, more)
		}
	}
	w.put(w.objects("s1", many, "x"))
	w.put(w.objects("s2", 3, "broken"))
	w.reset()
	check("after a Reset", placementP("s2"))
	if held := w.tracker.Placement(t.Context(), placementP("s2")).Held; held != 3 {
		t.Errorf("%d objects are held", held)
	}
	if d, want := countAll(w.tracker), []key.Placement{placementP(key.Root), placementP("s1")}; !slices.Equal(d.Placements, want) || len(d.Locations) != 1 {
		t.Errorf("in the end %+v is dirty", d)
	}
	w.put(w.objects("s1", many, "y"))
	w.put(w.objects("s2", 3, "y"))
	check("after a change", placementP(key.Root), placementP("s2"))
}

// TestChangeMeanwhile: what was evaluated of an object that has changed meanwhile does not count.
func TestChangeMeanwhile(t *testing.T) {
	var w *world
	changed := false
	w = newWorld(t, func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		if !changed {
			changed = true
			w.put(w.objects("s1", 1, "x"))
			w.applyChanges() // which knows of the change from now on
		}
		return digest(e, c)
	}, "s1")
	w.put(w.objects("s1", 1, "broken"))
	d := countAll(w.tracker)
	if got := w.tracker.Placement(t.Context(), placementP("s1")); !changed || got.Held != 0 || got.Assigned != 1 || !slices.Contains(d.Placements, placementP("s1")) {
		t.Errorf("%+v is dirty, and the counts are %+v", d, got)
	}
	if got, err := w.tracker.Object(t.Context(), objectAt("s1", "", "configmaps", "s1", "0").Path()); err != nil || !reflect.DeepEqual(got, v1alpha1.Counts{Assigned: 1}) {
		t.Errorf("the counts of the object are %+v, %v", got, err)
	}
}
