package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestSupposed changes a small world at random. Before each write of a Placement or a Customizer it
// computes the preview, which must equal the result except for conflicts with other spaces.
func TestSupposed(t *testing.T) {
	f := everything()
	f.kinds = append(f.kinds, placing, placing, customizing)
	checkSupposed(t, f)
}

// TestSupposedOfProviders is the same where spaces bind from each other what they place.
func TestSupposedOfProviders(t *testing.T) { checkSupposed(t, bindings()) }

func checkSupposed(t *testing.T, f focus) {
	seeds.Check(t, func(t *rapid.T) {
		w := world{}
		_, tbl := newTable()
		for rev := range int64(rapid.IntRange(1, 40).Draw(t, "writes")) {
			k := w.drawChange(t, f, rev+1)
			u := table.Update{Key: k, ModRev: rev + 1}
			var row *table.Row
			if x := w[k]; x != nil {
				u.Value, u.CreateRev = x.value(), x.createRev
				row = &table.Row{Entry: table.NewEntry(k, u.Value, u.CreateRev, u.ModRev)}
			}
			o, err := key.ParseObject(k)
			policy := err == nil && (o.Resource == key.Placements || o.Resource == key.Customizers)
			predicted := map[string]string{}
			if policy {
				s := Supposition{State: tbl.Snapshot(), Policy: o, Row: row, Compilers: Compilers{Rules: worldRules}, Most: 1000}
				if !s.Derive(func(o key.Object, row *table.Row, now *Membership) {
					predicted[o.Key()] = unowned(now)
					if old, ok := row.In.(*Membership); ok && old != nil && s.Policy.Space != key.Root {
						checkOthers(t, o, old, now)
					}
				}) {
					t.Fatal("not all was looked at")
				}
			}
			if err := tbl.Apply(rev+1, []table.Update{u}); err != nil {
				t.Fatal(err)
			}
			if policy {
				checkPredicted(t, tbl, o.Space, predicted)
			}
		}
	})
}

func checkPredicted(t *rapid.T, tbl *table.Writer, s key.Space, predicted map[string]string) {
	scope := key.SpacePrefix(s)
	if s == key.Root {
		scope = key.Objects.Prefix()
	}
	tbl.Snapshot().Ascend(scope, func(row *table.Row) bool {
		if decides(row.Key) {
			return true
		}
		m, _ := row.In.(*Membership)
		if got := unowned(m); got != predicted[row.Key] {
			t.Fatalf("%s: predicted was\n%s, it is\n%s", row.Key, predicted[row.Key], got)
		}
		delete(predicted, row.Key)
		return true
	})
	if len(predicted) > 0 {
		t.Fatalf("predicted was more: %v", slices.Collect(maps.Keys(predicted)))
	}
}

// checkOthers checks that a preview leaves the consumers of definitions as they are.
func checkOthers(t *rapid.T, o key.Object, old, now *Membership) {
	places := map[key.Location]*Class{}
	for _, p := range old.Places() {
		places[p.Location] = p.Class
	}
	if now == nil {
		return
	}
	for _, p := range now.Places() {
		before, is := places[p.Location]
		if is && (before != nil && before.Shared) != (p.Class != nil && p.Class.Shared) {
			t.Fatalf("%s: at %s it was %s, predicted is %s", o.Key(), p.Location, before, p.Class)
		}
	}
}

// unowned describes the places of a Membership without regard to other spaces. A Membership without
// places is equivalent to none: an object gets one if a Placement of another space selects no location.
func unowned(m *Membership) string {
	if m == nil || len(m.Places())+len(m.Refused()) == 0 {
		return "-"
	}
	places := m.Places()
	text := fmt.Sprintf("refused by %v", m.Refused())
	for _, p := range places {
		var inputs []Input // foreign definitions and consumers depend on other spaces
		if p.Class != nil {
			inputs = p.Class.Inputs
		}
		text += fmt.Sprintf(" %s %+v %s %s %q", p.Location, p.Policy, p.Held, p.HeldFor, inputs)
	}
	return text
}

// TestSupposedIsBounded looks at some of the objects only, in whatever space the policy is,
// and has those derived as all of them are.
func TestSupposedIsBounded(t *testing.T) {
	w := world{locationAt("a").Key(): {createRev: 1}, locationAt("b").Key(): {createRev: 1}}
	for _, s := range []key.Space{"s1", "s2"} {
		w[spaceAt(s).Key()] = &thing{createRev: 1}
		for i := range 10 {
			w[objectAt(s, "", "configmaps", "n", fmt.Sprint(i)).Key()] = &thing{createRev: 1}
		}
	}
	_, tbl := newTable()
	tbl.Reset(1, w.updates(1))
	spec := v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"b"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"configmaps"}}}},
	}
	for _, c := range []struct {
		most  int
		whole bool
	}{{4, false}, {9, false}, {10, true}, {11, true}} {
		p := placementAt("s1", "p")
		row := &table.Row{Entry: table.NewEntry(p.Key(), (&thing{uid: "u", spec: spec}).value(), 0, 0)}
		var placed []string
		whole := Supposition{State: tbl.Snapshot(), Policy: p, Row: row, Compilers: Compilers{Rules: worldRules}, Most: c.most}.Derive(func(o key.Object, _ *table.Row, now *Membership) {
			if now.Contains("b") && !now.Contains("a") {
				placed = append(placed, o.Name)
			}
		})
		if got, want := strings.Join(placed, ""), "0123456789"[:min(10, c.most)]; got != want || whole != c.whole {
			t.Errorf("of at most %d, %s are placed, all: %v", c.most, got, whole)
		}
	}
}

// BenchmarkSupposed is what one dry run of a Placement about all 50,000 objects of a space
// costs.
func BenchmarkSupposed(b *testing.B) {
	w := world{}
	for i := range 100 {
		w[locationAt(key.Location(fmt.Sprint("l", i))).Key()] = &thing{createRev: 1}
	}
	for i := range benchSpaces * benchObjects {
		w[objectAt("s", "apps", "deployments", "default", fmt.Sprintf("web-%d", i)).Key()] = &thing{createRev: 1}
	}
	spec := func(l ...string) *thing {
		return &thing{createRev: 1, uid: "u", spec: v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{{Names: l}},
			Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"deployments"}}}},
		}}
	}
	p := placementAt("s", "p")
	w[p.Key()] = spec("l1")
	t := table.New(table.Config{Deriver: New(), WindowSteps: 10, WindowBytes: 1 << 20})
	t.Reset(1, w.updates(1))
	row := &table.Row{Entry: table.NewEntry(p.Key(), spec("l1", "l2", "l3").value(), 1, 2)}
	b.ReportAllocs()
	for b.Loop() {
		Supposition{State: t.Snapshot(), Policy: p, Row: row, Most: 100_000}.Derive(func(key.Object, *table.Row, *Membership) {})
	}
}
