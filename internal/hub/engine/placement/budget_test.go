package placement

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// smallSpec is a Placement of 64 tests that meets all but the last requirement, with selectors of its own.
func smallSpec(i int) v1alpha1.PlacementSpec {
	var s metav1.LabelSelector
	for k := range 62 {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("k%d", k%largeRequirements), Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y", fmt.Sprint(i, "-", k)}})
	}
	s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: "z", Operator: metav1.LabelSelectorOpExists})
	return v1alpha1.PlacementSpec{Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{LabelSelectors: []metav1.LabelSelector{s}}}}}
}

// TestRevisionsAreBounded: with as many tests as the policies of a space, and those of root, may have, an edit
// of an object evaluates each of them at most once. An edit of a policy, or of a location, does so for each
// object that it concerns, however many small policies there are.
func TestRevisionsAreBounded(t *testing.T) {
	const policies = selectors.MaxSpaceTests / 64
	counts := &counted{Engine: New()}
	w, rev := largeTable(counts), int64(1)
	apply := func(updates map[key.Object]*thing) {
		t.Helper()
		rev++
		var all []table.Update
		for o, x := range updates {
			x.uid = o.Path()
			all = append(all, table.Update{Key: o.Key(), Value: x.value(), CreateRev: 2, ModRev: rev})
		}
		if err := w.Apply(rev, all); err != nil {
			t.Fatal(err)
		}
	}
	all, tests := map[key.Object]*thing{spaceAt("s"): {}, locationAt("l"): {}}, 0
	for i := range policies {
		own, others := smallSpec(i), smallSpec(policies+i)
		others.Spaces = &v1alpha1.SpaceSelector{Names: []string{"s"}}
		all[placementAt("s", fmt.Sprint("p", i))] = &thing{spec: own}
		all[placementAt(key.Root, fmt.Sprint("r", i))] = &thing{spec: others}
		tests += 2 * selectors.TestsIn(all[placementAt("s", fmt.Sprint("p", i))].value())
	}
	if tests != 2*selectors.MaxSpaceTests {
		t.Fatalf("the policies have %d tests", tests)
	}
	apply(all)
	check := func(what string, objects int) {
		t.Helper()
		// A policy that was changed is also asked which objects it concerns, as it was and as it is.
		if most := objects * (tests + 2*64); counts.requirements > most || objects > 0 && counts.requirements < tests/2 {
			t.Errorf("%s: %d requirements are evaluated for %d objects, want at most %d", what, counts.requirements, objects, most)
		}
	}
	o := objectAt("s", "core", "configmaps", "default", "o-3")
	labels := map[string]string{}
	for k := range largeRequirements {
		labels[fmt.Sprintf("k%d", k)] = "y"
	}
	apply(map[key.Object]*thing{o: {labels: labels}})
	check("an object", 1)
	apply(map[key.Object]*thing{placementAt("s", "p0"): {spec: v1alpha1.PlacementSpec{Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"configmaps"}}}}}}})
	check("a policy that begins to match all", largeObjects)
	apply(map[key.Object]*thing{locationAt("l"): {labels: map[string]string{"a": "b"}}})
	check("a location that no policy selects", 0)
}
