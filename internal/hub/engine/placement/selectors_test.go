package placement

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	largeEntries, largeSelectors, largeRequirements = 60, 64, 9
	largeObjects                                    = 20
)

// largeDownsync is 60 entries of 64 selectors of 9 requirements, of which an object of largeTable meets
// all but the last. salt is another text for each entry whose selectors are to be others.
func largeDownsync(salt func(entry int) string) (all []v1alpha1.Downsync) {
	for i := range largeEntries {
		var d v1alpha1.Downsync
		for j := range largeSelectors {
			var s metav1.LabelSelector
			for k := range largeRequirements - 1 {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("k%d", k), Operator: metav1.LabelSelectorOpExists})
			}
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("z%s-%d", salt(i), j), Operator: metav1.LabelSelectorOpExists})
			d.LabelSelectors = append(d.LabelSelectors, s)
		}
		all = append(all, d)
	}
	return all
}

// largeTable has objects with labels of their own, in a space.
func largeTable(d table.Deriver) *table.Writer {
	w := world{}
	for i := range largeObjects {
		labels := map[string]string{"app": fmt.Sprint(i)}
		for k := range largeRequirements {
			labels[fmt.Sprintf("k%d", k)] = "x"
		}
		o := objectAt("s", "core", "configmaps", "default", fmt.Sprintf("o-%d", i))
		w[o.Key()] = &thing{createRev: 1, uid: o.Path(), labels: labels}
	}
	t := table.New(table.Config{Deriver: d, WindowSteps: 1000, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	return t
}

// TestEqualSelectorsOnce: what the selectors of a Placement cost when it is written is the number of its
// different requirements for each object, however many entries have them. The table is locked meanwhile.
// So it is for Placements of more requirements than can be written today.
func TestEqualSelectorsOnce(t *testing.T) {
	for what, c := range seeds.Ordered(map[string]struct {
		salt func(int) string
		want int
	}{
		"the same in each entry": {func(int) string { return "" }, largeObjects * largeSelectors * largeRequirements},
		"others in each entry":   {func(i int) string { return fmt.Sprint(i) }, largeObjects * largeEntries * largeSelectors * largeRequirements},
	}) {
		counts := &counted{Engine: New()}
		w, rev := largeTable(counts), int64(1)
		for _, suspend := range []bool{false, true} { // created, then edited
			rev++
			o := placementAt("s", "p")
			x := &thing{uid: o.Path(), spec: v1alpha1.PlacementSpec{Suspend: suspend, Downsync: largeDownsync(c.salt)}}
			if err := w.Apply(rev, []table.Update{{Key: o.Key(), Value: x.value(), CreateRev: 2, ModRev: rev}}); err != nil {
				t.Fatal(err)
			}
			if counts.requirements == 0 || counts.requirements > c.want {
				t.Errorf("%s: %d requirements were evaluated, want at most %d", what, counts.requirements, c.want)
			}
		}
	}
}

// TestPartsAreBounded: a Placement of many resources in many namespaces has not each of the products
// looked through.
func TestPartsAreBounded(t *testing.T) {
	names := func(kind string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s%d", kind, i))
		}
		return all
	}
	counts := &counted{Engine: New()}
	w := largeTable(counts)
	o, group := placementAt("s", "p"), ""
	spec := v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"l"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{APIGroup: &group, Resources: append(names("r", 255), "configmaps"), Namespaces: append(names("n", 1023), "default")}}},
	}
	if err := w.Apply(2, []table.Update{
		{Key: o.Key(), Value: (&thing{uid: o.Path(), spec: spec}).value(), CreateRev: 2, ModRev: 2},
		{Key: locationAt("l").Key(), Value: (&thing{uid: "l"}).value(), CreateRev: 2, ModRev: 2},
	}); err != nil {
		t.Fatal(err)
	}
	if counts.ranges > maxPrefixes {
		t.Errorf("%d ranges of keys are read, want at most %d", counts.ranges, maxPrefixes)
	}
	placed := objectAt("s", "core", "configmaps", "default", "o-3")
	row, _ := w.Get(placed.Key())
	if m, ok := row.In.(*Membership); !ok || m == nil || !m.Contains("l") {
		t.Errorf("%s is not placed: %v", placed, row.In)
	}
}

// TestEndingSpaceCostsNothing: the policies of a space that is being deleted go many at a time, and
// nothing is evaluated for that.
func TestEndingSpaceCostsNothing(t *testing.T) {
	counts := &counted{Engine: New()}
	w := largeTable(counts)
	o := placementAt("s", "p")
	x := &thing{uid: o.Path(), spec: v1alpha1.PlacementSpec{Downsync: largeDownsync(func(int) string { return "" })}}
	for rev, u := range []table.Update{
		{Key: o.Key(), Value: x.value(), CreateRev: 2},
		{Key: spaceAt("s").Key(), Value: (&thing{uid: "s", deleting: true}).value(), CreateRev: 2},
		{Key: o.Key()},
	} {
		u.ModRev = int64(rev) + 2
		if err := w.Apply(u.ModRev, []table.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	if counts.requirements != 0 {
		t.Errorf("%d requirements were evaluated for a Placement that goes with its space", counts.requirements)
	}
}
