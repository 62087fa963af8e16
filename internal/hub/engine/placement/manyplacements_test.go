package placement

import (
	"fmt"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// manyPlacements is a space with so many Placements, each of one of 50 objects for one of
// 1,000 locations.
func manyPlacements(n int, d table.Deriver) *table.Writer {
	w := world{}
	add := func(o key.Object, x *thing) {
		x.createRev, x.uid = 1, o.Path()
		w[o.Key()] = x
	}
	for i := range benchLocations {
		add(locationAt(key.Location(fmt.Sprintf("l%d", i))), &thing{})
	}
	for i := range benchObjects {
		add(objectAt("s", "core", "configmaps", "default", fmt.Sprintf("o-%d", i)), &thing{})
	}
	for i := range n {
		add(placementAt("s", fmt.Sprintf("p-%05d", i)), &thing{spec: onePlacement(i)})
	}
	t := table.New(table.Config{Deriver: d, WindowSteps: 1000, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	return t
}

func onePlacement(i int) v1alpha1.PlacementSpec {
	return v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{fmt.Sprintf("l%d", i%benchLocations)}}},
		Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{
			Resources: []string{"configmaps"}, Namespaces: []string{"default"}, Names: []string{fmt.Sprintf("o-%d", i%benchObjects)},
		}}},
	}
}

// BenchmarkManyPlacements is one Placement more or less in a space that has many, and an
// edit of one of its objects.
func BenchmarkManyPlacements(b *testing.B) {
	for _, n := range []int{50, 500, 5000} {
		b.Run(fmt.Sprintf("placement/%d", n), func(b *testing.B) {
			t, rev := manyPlacements(n, New()), int64(1)
			for b.Loop() {
				rev++
				apply(b, t, rev, placementAt("s", "p-00000"), &thing{spec: onePlacement(int(rev) % benchLocations)})
			}
		})
		b.Run(fmt.Sprintf("object/%d", n), func(b *testing.B) {
			t, rev := manyPlacements(n, New()), int64(1)
			for b.Loop() {
				rev++
				apply(b, t, rev, objectAt("s", "core", "configmaps", "default", "o-7"), &thing{labels: map[string]string{"n": fmt.Sprint(rev)}})
			}
		})
	}
}

// counted counts the objects that a step evaluates, the requirements of selectors that it evaluates
// for them, and the ranges of keys that it reads.
type counted struct {
	*Engine
	evaluated, requirements, ranges int
}

// Derive implements table.Deriver.
func (c *counted) Derive(state table.Reader, changes []table.Change) []table.Assignment {
	s := c.step(state)
	all := s.derive(changes)
	c.evaluated, c.requirements, c.ranges = len(s.evaluated), s.memo.requirements(), len(s.recheck)
	return all
}

// A Placement that comes, changes or goes has those objects evaluated again that it matches
// or matched, and itself: a user's thousands of Placements in one space would otherwise hold
// up everybody, each with as many evaluations as there are objects, of as many Placements.
func TestPlacementConcernsWhatItMatches(t *testing.T) {
	c := &counted{Engine: New()}
	w, rev := manyPlacements(100, c), int64(1)
	for what, step := range seeds.Ordered(map[string]struct {
		spec *v1alpha1.PlacementSpec
		want int
	}{
		"nothing else":  {new(onePlacement(3)), 1},
		"another":       {new(onePlacement(4)), 3},
		"none any more": {nil, 2},
	}) {
		for _, spec := range []*v1alpha1.PlacementSpec{new(onePlacement(3)), step.spec} {
			rev++
			o := placementAt("s", "p-00003")
			u := table.Update{Key: o.Key(), ModRev: rev}
			if spec != nil {
				u.Value, u.CreateRev = (&thing{uid: o.Path(), spec: *spec}).value(), 1
			}
			if err := w.Apply(rev, []table.Update{u}); err != nil {
				t.Fatal(err)
			}
		}
		if c.evaluated != step.want {
			t.Errorf("%s: %d objects were evaluated, want %d", what, c.evaluated, step.want)
		}
	}
}
