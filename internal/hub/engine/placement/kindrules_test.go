package placement

import (
	"fmt"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

func kindRulesAt(space key.Space, name string) key.Object {
	return objectAt(space, v1alpha1.Group, "kindrules", "", name)
}

func rulesFor(group string, resources ...string) *thing {
	return &thing{spec: v1alpha1.KindRulesSpec{Kinds: []v1alpha1.RuleKinds{{APIGroup: group, Resources: resources}}, Health: v1alpha1.HealthRule{State: "'Healthy'"}}}
}

// healthWorld is a table with the object classed at three locations, and an engine with health rules.
type healthWorld struct {
	*classes
	compiled int
}

func newHealthWorld(t *testing.T) *healthWorld {
	t.Helper()
	w := &healthWorld{}
	e := New()
	e.Health = func(*v1alpha1.KindRulesSpec) (Health, []string) {
		w.compiled++
		return func(HealthInput) (wire.Health, string, error) { return wire.Healthy, "", nil }, nil
	}
	w.classes = &classes{T: t, table: table.New(table.Config{Deriver: e, WindowSteps: 100, WindowBytes: 1 << 20})}
	for _, l := range worldLocations {
		w.set(locationAt(l), &thing{})
	}
	w.set(placementAt("s", "p"), &thing{spec: v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a", "b", "c"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Names: []string{"x"}}}},
	}})
	w.set(classed, &thing{})
	return w
}

// place returns the assignment to the location a.
func (w *healthWorld) place() Place {
	w.Helper()
	row, _ := w.table.Get(classed.Key())
	p, ok := row.In.(*Membership).Place("a")
	if !ok {
		w.Fatal("the object is not placed")
	}
	return p
}

// rules returns the names of the KindRules that apply to the object.
func (w *healthWorld) rules() (names []string) {
	w.Helper()
	if p := w.place(); p.Health != nil {
		for _, r := range p.Health.Rules {
			names = append(names, r.KindRules.Path())
		}
	}
	return names
}

// TestKindRulesReachObjects checks which KindRules apply to an object while they change.
func TestKindRulesReachObjects(t *testing.T) {
	w := newHealthWorld(t)
	wants := func(names ...string) {
		t.Helper()
		if got := w.rules(); !slices.Equal(got, names) {
			t.Errorf("got %q, want %q", got, names)
		}
		if requested := w.place().Policy.ReturnStatus; requested != (len(names) > 0) {
			t.Errorf("the status is requested: %t", requested)
		}
	}
	const b, c = "s/orrery.dev/kindrules/b", "s/orrery.dev/kindrules/c"
	wants()
	w.set(kindRulesAt("s", "b"), rulesFor("", "secrets", "configmaps"))
	wants(b)
	w.set(kindRulesAt("s", "a"), rulesFor("example.com", "configmaps"))
	w.set(kindRulesAt("other", "a"), rulesFor("", "configmaps"))
	wants(b)
	w.set(kindRulesAt("s", "c"), rulesFor("", "configmaps"))
	wants(b, c)
	w.set(kindRulesAt("s", "b"), rulesFor("", "secrets"))
	wants(c)
	before := w.compiled
	w.set(kindRulesAt("s", "c"), &thing{spec: rulesFor("", "configmaps").spec, status: map[string]any{"observedGeneration": 1}})
	if wants(c); w.compiled != before {
		t.Error("a change of the status compiles the rules again")
	}
	w.set(kindRulesAt("s", "c"), &thing{spec: rulesFor("", "configmaps").spec, deleting: true})
	wants()
}

// TestKindRulesChangeMemberships checks that a Membership differs at a location when other rules
// apply, also if they differ only in an expression.
func TestKindRulesChangeMemberships(t *testing.T) {
	w := newHealthWorld(t)
	membership := func() *Membership {
		row, _ := w.table.Get(classed.Key())
		return row.In.(*Membership)
	}
	without := membership()
	w.set(kindRulesAt("s", "b"), rulesFor("", "configmaps"))
	first := membership()
	changed := rulesFor("", "configmaps")
	spec := changed.spec.(v1alpha1.KindRulesSpec)
	spec.Health.State = "'Degraded'"
	changed.spec = spec
	w.set(kindRulesAt("s", "b"), changed)
	second := membership()
	if first.SameAt("a", without) || first.SameAt("a", second) || !second.SameAt("a", second) {
		t.Error("Memberships with other rules are the same")
	}
	w.set(kindRulesAt("s", "b"), rulesFor("", "configmaps"))
	if again := membership(); !again.SameAt("a", first) {
		t.Error("Memberships with equal rules differ")
	}
}

// TestHealthRulesAreBounded checks that no more KindRules are evaluated than the limit.
func TestHealthRulesAreBounded(t *testing.T) {
	w := newHealthWorld(t)
	for i := range MaxHealthRules + 3 {
		w.set(kindRulesAt("s", fmt.Sprint("r", i)), rulesFor("", "configmaps"))
	}
	if h := w.place().Health; len(h.Rules) != MaxHealthRules || h.Omitted != 3 {
		t.Errorf("%d rules and %d omitted", len(h.Rules), h.Omitted)
	}
}
