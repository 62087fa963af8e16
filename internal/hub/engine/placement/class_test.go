package placement

import (
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// classes are a space whose ConfigMap x goes to three locations, with a Customizer for
// a and b.
type classes struct {
	*testing.T
	table *table.Writer
	rev   int64
}

func newClasses(t *testing.T, rules RulesOf) *classes {
	e := New()
	e.Rules = rules
	c := &classes{T: t, table: table.New(table.Config{Deriver: e, WindowSteps: 100, WindowBytes: 1 << 20})}
	for _, l := range worldLocations {
		c.set(locationAt(l), &thing{labels: map[string]string{"k": "1", "site": string(l)}})
	}
	c.set(placementAt("s", "p"), &thing{spec: v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a", "b", "c"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Names: []string{"x"}}}},
	}})
	c.set(classed, &thing{})
	c.customize("$.data", "a", "b")
	return c
}

var classed = objectAt("s", "", "configmaps", "n1", "x")

func (c *classes) set(o key.Object, x *thing) {
	c.Helper()
	c.rev++
	if err := c.table.Apply(c.rev, []table.Update{{Key: o.Key(), Value: x.value(), CreateRev: 1, ModRev: c.rev}}); err != nil {
		c.Fatal(err)
	}
}

// customize makes the Customizer have a rule, at some locations.
func (c *classes) customize(path string, locations ...string) {
	spec := v1alpha1.CustomizerSpec{
		Match: []v1alpha1.ObjectTest{{Names: []string{"x"}}},
		Rules: []v1alpha1.Rule{{Path: path}},
	}
	if locations != nil {
		spec.Locations = []v1alpha1.LocationSelector{{Names: locations}}
	}
	c.set(customizerAt("s", "c"), &thing{spec: spec})
}

func (c *classes) classAt(l key.Location) *Class {
	row, _ := c.table.Get(classed.Key())
	p, _ := row.In.(*Membership).Place(l)
	return p.Class
}

// notified returns the locations that are notified of changes since a revision.
func (c *classes) notified(since int64) string {
	all := ""
	for _, l := range worldLocations {
		sub, err := c.table.Subscribe(since, nil, table.LocationTopic(l))
		if err != nil {
			c.Fatal(err)
		}
		steps, _, err := sub.Poll()
		if sub.Close(); err != nil {
			c.Fatal(err)
		}
		if len(steps) > 0 {
			all += string(l)
		}
	}
	return all
}

// TestClassesAreMemberships: a change of class alone is sent to the affected locations, also from
// the window of the table.
func TestClassesAreMemberships(t *testing.T) {
	c := newClasses(t, worldRules)
	for _, step := range []struct {
		what     string
		do       func()
		notified string
		a, b, c  string
	}{
		{"nothing", func() {}, "", `["$.data;" of ""]`, `["$.data;" of ""]`, `[]`},
		{"the same again", func() { c.customize("$.data", "b", "a") }, "", `["$.data;" of ""]`, `["$.data;" of ""]`, `[]`},
		{"another rule", func() { c.customize("$.spec", "a", "b") }, "ab", `["$.spec;" of ""]`, `["$.spec;" of ""]`, `[]`},
		{"other locations", func() { c.customize("$.spec", "b", "c") }, "ac", `[]`, `["$.spec;" of ""]`, `["$.spec;" of ""]`},
		{"a label that is not needed", func() { c.set(locationAt("b"), &thing{labels: map[string]string{"k": "2"}}) }, "", `[]`, `["$.spec;" of ""]`, `["$.spec;" of ""]`},
		{"one that is", func() { c.customize(worldNeeds, "b", "c") }, "bc", `[]`, `["$.data.x;" of "2"]`, `["$.data.x;" of "1"]`},
		{"it changes", func() { c.set(locationAt("b"), &thing{labels: map[string]string{"k": "3"}}) }, "b", `[]`, `["$.data.x;" of "3"]`, `["$.data.x;" of "1"]`},
		{"it goes", func() { c.set(locationAt("b"), &thing{}) }, "b", `[]`, `["$.data.x;" of ""]`, `["$.data.x;" of "1"]`},
		{"where nothing follows it", func() { c.set(locationAt("a"), &thing{labels: map[string]string{"k": "3"}}) }, "", `[]`, `["$.data.x;" of ""]`, `["$.data.x;" of "1"]`},
		{"everywhere", func() { c.customize(worldNeeds) }, "a", `["$.data.x;" of "3"]`, `["$.data.x;" of ""]`, `["$.data.x;" of "1"]`},
		{"it changes there", func() { c.set(locationAt("a"), &thing{labels: map[string]string{"k": "1"}}) }, "a", `["$.data.x;" of "1"]`, `["$.data.x;" of ""]`, `["$.data.x;" of "1"]`},
	} {
		before := c.rev
		step.do()
		if got := c.notified(before); got != step.notified {
			t.Errorf("%s: notified are %q, want %q", step.what, got, step.notified)
		}
		for l, want := range map[key.Location]string{"a": step.a, "b": step.b, "c": step.c} {
			if got := c.classAt(l).String(); got != want {
				t.Errorf("%s: class of %s is %s, want %s", step.what, l, got, want)
			}
		}
	}
	if c.classAt("a") != c.classAt("c") || c.classAt("a") == c.classAt("b") {
		t.Error("locations of one class have not the same one")
	}
}

// With today's rules a rendering depends on the object alone, wherever it goes.
func TestOneClassToday(t *testing.T) {
	c := newClasses(t, New().Rules)
	for _, l := range worldLocations {
		if got := c.classAt(l); got != nil {
			t.Errorf("class of %s is %s", l, got)
		}
	}
}
