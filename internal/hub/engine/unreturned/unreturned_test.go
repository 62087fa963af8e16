package unreturned

import (
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestIndex follows the unreturned statuses of objects and of their Placements.
func TestIndex(t *testing.T) {
	changed := 0
	x := New(func() { changed++ })
	object := func(name string) key.Object {
		return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: name}}
	}
	p, q := key.Placement{Space: "s", Name: "p"}, key.Placement{Space: "s", Name: "q"}
	check := func(placement key.Placement, count int, texts ...string) {
		t.Helper()
		m := x.Missed(placement, placement.Space)
		if m.Count != count {
			t.Errorf("%s misses %d statuses, want %d", placement.Name, m.Count, count)
		}
		for _, text := range texts {
			if !strings.Contains(m.String(), text) {
				t.Errorf("%s says %q, which lacks %q", placement.Name, m, text)
			}
		}
	}
	dirty := func(want ...key.Placement) {
		t.Helper()
		got := x.Dirty()
		slices.SortFunc(got, func(a, b key.Placement) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(got, want) {
			t.Errorf("dirty are %v, want %v", got, want)
		}
	}

	check(p, 0)
	x.Add(object("a"), Unfit{Location: "l", Placements: []key.PlacementRef{"p", "q"}, Limits: []string{"bytes"}, Why: "too many bytes"})
	for _, name := range []string{"d", "c", "b", "e"} {
		x.Add(object(name), Unfit{Location: "l", Placements: []key.PlacementRef{"p"}, Limits: []string{"objectBytes"}})
	}
	check(p, 5, "(bytes, objectBytes)", "core/configmaps/n/a from l, core/configmaps/n/b from l, core/configmaps/n/c from l and 2 more")
	check(q, 1, "core/configmaps/n/a from l;")
	dirty(p, q)
	dirty()
	if u, ok := x.Get(object("a").Key()); !ok || u.Why != "too many bytes" {
		t.Errorf("of a is left out %+v, %v", u, ok)
	}
	if in := x.In("s"); len(in) != 5 || len(x.In("t")) != 0 {
		t.Errorf("in the space are %q", in)
	}

	x.Add(object("a"), Unfit{Location: "l", Placements: []key.PlacementRef{"p"}, Limits: []string{"bytes"}}) // q asks no more
	check(q, 0)
	dirty(p, q)
	before := changed
	x.Forget(object("a"))
	x.Forget(object("a"))
	if changed != before+1 {
		t.Errorf("%d changes, want 1", changed-before)
	}
	check(p, 4)
	for _, name := range []string{"b", "c", "d", "e"} {
		x.Forget(object(name))
	}
	if check(p, 0); x.Missed(p, "s").String() != "" || x.all.Len()+len(x.named) > 0 {
		t.Errorf("of nothing is left %d, %d", x.all.Len(), len(x.named))
	}
}
