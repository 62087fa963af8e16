package placement

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// What is needed of locations may be long: it is held once, however many sets have it.
func TestNeedsAreShared(t *testing.T) {
	var sets locationSets
	text := func() string { return strings.Repeat("x", 10) }
	names := []key.Location{"a", "b"}
	s := sets.intern(names, []string{text(), "y"})
	for what, o := range map[string]*locationSet{
		"another location":  sets.with(s, "c", text()),
		"other needs":       sets.with(s, "b", text()),
		"a location less":   sets.without(s, "b"),
		"a set of its own":  sets.intern([]key.Location{"a"}, []string{text()}),
		"one more that has": sets.with(sets.intern([]key.Location{"a"}, nil), "a", text()),
	} {
		old, _ := s.find("a")
		if now, ok := o.find("a"); !ok || now != old || now.String() != text() {
			t.Errorf("%s: %q is not the one that was there", what, now)
		}
	}
	if again := sets.with(sets.with(s, "b", text()), "b", "y"); again != s {
		t.Error("a set with the same needs is another")
	}
	if without := sets.with(s, "b", ""); without == s {
		t.Error("a set without needs is the one with them")
	} else if n, ok := without.find("b"); !ok || n.String() != "" {
		t.Errorf("b needs %q, %v", n, ok)
	}
}

// BenchmarkNeedsOfOne is a change of what is needed of one of 1,000 locations, of 16 KiB each.
func BenchmarkNeedsOfOne(b *testing.B) {
	var sets locationSets
	names, needs := make([]key.Location, benchLocations), make([]string, benchLocations)
	for i := range names {
		names[i] = key.Location(fmt.Sprintf("l%04d", i))
		needs[i] = fmt.Sprintf("%04d%s", i, strings.Repeat("x", 16<<10))
	}
	s := sets.intern(names, needs)
	two := [2]string{"1" + needs[500], "2" + needs[500]}
	i := 0
	for b.Loop() {
		i++
		s = sets.with(s, "l0500", two[i%2])
	}
}
