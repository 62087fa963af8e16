package queries

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

func numbered(s key.Space, i int) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "n", Name: fmt.Sprintf("%06d", i)}}
}

// following returns a follower of space s in a table that also has spaces r and t, each with the
// same number of objects. at returns the location that an object is assigned to.
func following(objects int, locationOf func(i int) key.Location) (*follower, *table.Writer) {
	w := table.New(table.Config{Deriver: placement.New(), WindowSteps: 10, WindowBytes: 1 << 20})
	var all []table.Update
	add := func(k, value string) {
		all = append(all, table.Update{Key: k, Value: []byte(value), CreateRev: 1, ModRev: 1})
	}
	for _, l := range []key.Location{"a", "b"} {
		add(l.Key(), `{}`)
	}
	for _, s := range []key.Space{"r", "s", "t"} {
		add(key.Object{Space: s, Identity: key.Identity{Resource: key.Placements, Name: "p"}}.Key(), `{}`)
		for i := range objects {
			add(numbered(s, i).Key(), fmt.Sprintf(`{"metadata":{"annotations":{%q:"[\"%s\"]"}}}`, v1alpha1.AssignedLocationsAnnotation, locationOf(i)))
		}
	}
	w.Reset(1, all)
	return &follower{status: New(Config{Table: w.Table}).status, rights: &rights{space: "s"}, dirty: map[key.Identity]*changedPlaces{}}, w
}

// stale returns the change by which a location becomes disconnected.
func stale(t testing.TB, w *table.Writer, rev int64, l key.Location) table.Change {
	t.Helper()
	before, _ := w.Get(l.Key())
	value := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Connected","status":"False","message":"%d"}]}}`, rev)
	if err := w.Apply(rev, []table.Update{{Key: l.Key(), Value: value, CreateRev: 1, ModRev: rev}}); err != nil {
		t.Fatal(err)
	}
	is, _ := w.Get(l.Key())
	return table.Change{Prev: before, Cur: is}
}

// TestLocationBecomesStale: the follower sends the objects that are assigned to the location, and
// those that the location still reports without an assignment.
func TestLocationBecomesStale(t *testing.T) {
	c, w := following(4, func(i int) key.Location { return []key.Location{"a", "b"}[i%2] })
	left := key.Report{Location: "a", Origin: key.Placed, Object: numbered("s", 3)}
	others := []key.Report{{Location: "a", Origin: key.Upsynced, Object: numbered("s", 1)}, {Location: "a", Origin: key.Placed, Object: numbered("t", 1)}}
	var reports []table.Update
	for _, r := range append(others, left) {
		reports = append(reports, table.Update{Key: r.Key(), Value: []byte(`{}`), CreateRev: 2, ModRev: 2})
	}
	if err := w.Apply(2, reports); err != nil {
		t.Fatal(err)
	}
	c.recordLocation(stale(t, w, 3, "a"))
	var got []string
	for id, changed := range c.dirty {
		got = append(got, fmt.Sprintf("%s%v%v", id.Name, slices.Collect(maps.Keys(changed.locations)), changed.whole))
	}
	slices.Sort(got)
	if want := []string{"000000[a]false", "000002[a]false", "000003[a]false"}; !slices.Equal(got, want) {
		t.Errorf("noted %v, want %v", got, want)
	}
}

// BenchmarkLocationBecomesStale measures a location with one of 20,000 objects of a space.
func BenchmarkLocationBecomesStale(b *testing.B) {
	c, w := following(20_000, func(i int) key.Location { return map[bool]key.Location{true: "a", false: "b"}[i == 0] })
	change := stale(b, w, 2, "a")
	for b.Loop() {
		c.recordLocation(change)
	}
	if len(c.dirty) != 1 {
		b.Errorf("%d are noted", len(c.dirty))
	}
}
