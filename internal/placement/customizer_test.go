package placement

import (
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/table"
)

// What changes by a Customizer is told to the locations that it is in force at, of
// the objects that it matches, and of nothing else.
func TestCustomizerIsToldWhereItMatters(t *testing.T) {
	_, tbl := newTable()
	rev := int64(0)
	apply := func(k string, x *thing) {
		t.Helper()
		rev++
		u := table.Update{Key: k, ModRev: rev, CreateRev: 1}
		if x != nil {
			u.Value = x.value()
		}
		if err := tbl.Apply(rev, []table.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	matched, other := objectAt("s", "apps", "deployments", "n", "x").Key(), objectAt("s", "", "configmaps", "n", "x").Key()
	for _, l := range []string{"a", "b"} {
		apply(locationAt(l).Key(), &thing{})
	}
	apply(matched, &thing{})
	apply(other, &thing{})
	apply(placementAt("s", "p").Key(), &thing{spec: v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a", "b"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Namespaces: []string{"n"}}}},
	}})
	told := map[string]*table.Subscription{}
	for _, l := range []string{"a", "b"} {
		sub, err := tbl.Subscribe(table.Of(l), rev)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		told[l] = sub
	}
	check := func(what string, want map[string][]string) {
		t.Helper()
		for l, sub := range told {
			steps, _, err := sub.Poll()
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, step := range steps {
				for _, c := range step.Changes {
					keys = append(keys, c.Row().Key)
				}
			}
			if !slices.Equal(keys, want[l]) {
				t.Errorf("%s: location %s is told of %v, want %v", what, l, keys, want[l])
			}
		}
	}
	customizer := func(paths ...string) *thing {
		spec := v1alpha1.CustomizerSpec{
			Match:     []v1alpha1.ObjectTest{{Resources: []string{"deployments"}}},
			Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
		}
		for _, p := range paths {
			spec.Rules = append(spec.Rules, v1alpha1.Rule{Path: p, Release: true})
		}
		return &thing{spec: spec}
	}
	ofA := map[string][]string{"a": {matched}}
	k := customizerAt("s", "c").Key()
	apply(k, customizer("$.spec.x"))
	check("created", ofA)
	apply(k, customizer("$.spec.x", "$.spec.y"))
	check("edited", ofA)
	apply(k, customizer("$.spec.y", "$.spec.x"))
	check("edited without a difference", nil)
	apply(customizerAt("s", "d").Key(), customizer("$.spec.y"))
	check("another one says the same", nil)
	apply(k, nil)
	check("deleted", ofA)
	apply(customizerAt("other", "d").Key(), customizer("$.spec.y"))
	check("another space's", nil)
}
