package placement

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/rulepath"
)

// TestReleased: the released paths at a location are the union of those of all Customizers that
// apply there. Others have no effect.
func TestReleased(t *testing.T) {
	set := func(names ...key.Location) *locationSet { return &locationSet{names: names} }
	x, y, both := effect{text: "$.x"}, effect{text: "$.y"}, effect{text: "$.x\n$.z"}
	limitedTo := func(r effect, s *locationSet) effect {
		r.locations = s
		return r
	}
	for name, c := range map[string]struct {
		releases []effect
		all      string
		each     []string
	}{
		"nothing":    {},
		"everywhere": {releases: []effect{both, y}, all: "$.x\n$.y\n$.z"},
		"somewhere":  {releases: []effect{limitedTo(x, set("b")), limitedTo(y, set("b", "c"))}, each: []string{"", "$.x\n$.y", "$.y"}},
		"more there": {releases: []effect{x, limitedTo(both, set("a")), limitedTo(y, set("z"))}, each: []string{"$.x\n$.z", "$.x", "$.x"}},
	} {
		all, each := released(c.releases, []key.Location{"a", "b", "c"})
		if all != c.all || fmt.Sprintf("%q", each) != fmt.Sprintf("%q", c.each) {
			t.Errorf("%s: %q %q, want %q %q", name, all, each, c.all, c.each)
		}
	}
}

// However many Customizers an object has, a class has no more inputs than are used, and one
// that is derived for one location is the same.
func TestInputsAreBounded(t *testing.T) {
	c := newClasses(t, worldRules)
	for i := range rulepath.MaxCustomizers + 20 {
		spec := v1alpha1.CustomizerSpec{Match: []v1alpha1.ObjectTest{{Names: []string{"x"}}}, Rules: []v1alpha1.Rule{{Path: fmt.Sprintf("$.data.x%d", i)}}}
		if i%2 > 0 { // for one of three locations
			spec.Locations = []v1alpha1.LocationSelector{{Names: []string{"b"}}}
		}
		c.set(customizerAt("s", fmt.Sprintf("d%03d", i)), &thing{spec: spec})
	}
	state := c.table.Snapshot()
	classOf := ClassesOf(state, classed, state.Get(classed.Key()), worldRules)
	for l, want := range map[key.Location]int{"a": 1 + (rulepath.MaxCustomizers+20)/2, "b": maxInputs, "c": (rulepath.MaxCustomizers + 20) / 2} {
		class := c.classAt(l)
		if len(class.Inputs) != want {
			t.Errorf("at %s it has %d inputs, want %d", l, len(class.Inputs), want)
		}
		if !class.Equal(classOf(state.Get(l.Key()))) {
			t.Errorf("at %s it has another class", l)
		}
	}
}

// An object of which more is released than goes to a location with it keeps what
// the location has, and says so.
func TestTooManyRules(t *testing.T) {
	var ms memberships
	sources := []Source{{Placement: "p", locations: &locationSet{names: []key.Location{"a", "b"}}}}
	few := effect{text: "$.x", key: "few"}
	many := effect{text: "$." + strings.Repeat("y", rulepath.MaxJoined), key: "many", locations: &locationSet{id: 1, names: []key.Location{"b"}}}
	m := ms.intern(draft{sources: sources, releases: []effect{few, many}}, foreignState{})
	for location, want := range map[key.Location]Place{
		"a": {Location: "a"},
		"b": {Location: "b", Held: fmt.Sprintf("its Customizers release paths of more than %d bytes", rulepath.MaxJoined), HeldFor: "TooManyRules"},
	} {
		if want.Held == "" {
			want.Policy.Release = "$.x"
		}
		if got, ok := m.Place(location); !ok || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
