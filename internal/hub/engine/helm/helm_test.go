package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func keyOf(s key.Space, group, resource, namespace, name string) string {
	return key.Object{Space: s, Identity: key.Identity{Resource: key.NewResource(group, resource), Namespace: namespace, Name: name}}.Key()
}

// thing is an object of a test; release is NAME, in the namespace n.
type thing struct {
	space                key.Space
	release, manager, is string
	deleting             bool
}

func (x thing) value() []byte {
	metadata := map[string]any{
		"labels":      map[string]string{"app.kubernetes.io/managed-by": x.manager, "is": x.is},
		"annotations": map[string]string{"meta.helm.sh/release-name": x.release, "meta.helm.sh/release-namespace": "n"},
	}
	if x.deleting {
		metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
	}
	return mustJSON(map[string]any{"metadata": metadata})
}

func placementOf(s key.Space, is string) []byte {
	var reached any
	if s == key.Root {
		reached = map[string]any{"selector": map[string]any{}}
	}
	return mustJSON(map[string]any{"spec": map[string]any{
		"spaces":    reached,
		"locations": []any{map[string]any{"selector": map[string]any{}}},
		"downsync":  []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]string{"is": is}}}}},
	}})
}

// machine is a table of objects and two Placements in each of two spaces.
type machine struct {
	table   *table.Writer
	index   *Index
	rev     int64
	objects map[string]thing
	places  map[key.Placement]string // the label that they select by
	// shown is what a hub has written by what was dirty.
	shown map[key.Placement][]PartialRelease
}

func newMachine() *machine {
	m := &machine{index: New(), objects: map[string]thing{}, places: map[key.Placement]string{}, shown: map[key.Placement][]PartialRelease{}}
	m.table = table.New(table.Config{Deriver: placement.New(), Observer: m.index, WindowSteps: 10, WindowBytes: 1 << 20})
	return m
}

func (m *machine) put(k string, value []byte) {
	m.rev++
	if err := m.table.Apply(m.rev, []table.Update{{Key: k, Value: value, CreateRev: 1, ModRev: m.rev}}); err != nil {
		panic(err)
	}
}

func (m *machine) change(t *rapid.T) {
	space := rapid.SampledFrom([]key.Space{"s", "z"}).Draw(t, "space")
	resource := rapid.SampledFrom([]string{"configmaps", "configmaps", "services", "events"}).Draw(t, "resource")
	k := keyOf(space, "", resource, "n", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		delete(m.objects, k)
		m.put(k, nil)
		return
	}
	x := thing{
		space, rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "release"), rapid.SampledFrom([]string{"Helm", "Helm", "me"}).Draw(t, "by"),
		rapid.SampledFrom([]string{"x", "y"}).Draw(t, "is"), rapid.IntRange(0, 5).Draw(t, "deleting") == 0,
	}
	m.objects[k] = x
	m.put(k, x.value())
}

func (m *machine) place(t *rapid.T) {
	p := key.Placement{Space: rapid.SampledFrom([]key.Space{"s", "z", key.Root}).Draw(t, "space"), Name: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "placement")}
	k := keyOf(p.Space, v1alpha1.Group, "placements", "", p.Name)
	if m.places[p] = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "selects"); m.places[p] == "" {
		m.put(k, nil)
		return
	}
	m.put(k, placementOf(p.Space, m.places[p]))
}

func (m *machine) restart(*rapid.T) {
	var all []table.Update
	m.table.Snapshot().Ascend("", func(r *table.Row) bool {
		all = append(all, table.Update{Key: r.Key, Value: r.Value, CreateRev: r.CreateRev, ModRev: r.ModRev})
		return true
	})
	m.rev++
	m.table.Reset(m.rev, all)
}

// naive looks at every object anew.
func (m *machine) naive(p key.Placement) (all []PartialRelease) {
	for _, releaseID := range []id{{"s", "r1"}, {"s", "r2"}, {"z", "r1"}, {"z", "r2"}} {
		if p.Space != key.Root && releaseID.space != p.Space {
			continue
		}
		release, want := releaseID.name, PartialRelease{Space: releaseID.space, Release: "n/" + releaseID.name}
		for _, k := range slices.Sorted(maps.Keys(m.objects)) {
			x := m.objects[k]
			o, err := key.ParseObject(k)
			if err != nil || x.space != releaseID.space || x.release != release || x.manager != "Helm" || x.deleting || o.Resource.Resource == "events" {
				continue
			}
			if want.Objects++; x.is == m.places[p] {
				want.Matched++
			} else if len(want.Missing) < maxExamples {
				want.Missing = append(want.Missing, o.Identity.String())
			}
		}
		if p.Space == key.Root {
			want.Release, want.Missing = "", nil
		}
		if want.Matched > 0 && want.Matched < want.Objects {
			all = append(all, want)
		}
	}
	return all
}

func (m *machine) check(t *rapid.T) {
	for _, p := range m.index.Dirty() {
		m.shown[p] = m.index.PartialReleases(p, p.Space)
	}
	for p := range m.places {
		want := m.naive(p)
		if got := m.index.PartialReleases(p, p.Space); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: got %v, want %v", p, got, want)
		}
		if m.places[p] != "" && !reflect.DeepEqual(m.shown[p], want) {
			t.Fatalf("%v shows %v, want %v", p, m.shown[p], want)
		}
	}
}

// TestParts compares the index with a full computation, over random changes, and checks that every
// affected Placement is dirty.
func TestParts(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.put(keyOf(key.Root, v1alpha1.Group, "locations", "", "l"), []byte(`{}`))
		m.put(key.Space("s").Key(), []byte(`{}`))
		m.put(key.Space("z").Key(), []byte(`{}`))
		t.Repeat(map[string]func(*rapid.T){"": m.check, "change": m.change, "change more": m.change, "place": m.place, "restart": m.restart})
		for k := range seeds.Ordered(m.objects) {
			m.put(k, nil)
		}
		if len(m.index.all)+len(m.index.partial) > 0 {
			t.Fatalf("%v is left", m.index.all)
		}
	})
}

// TestMissingIsReadFromACopy: the objects that a Placement does not match are searched in a copy, so that a release of
// any size does not hold up the changes that the Index observes.
func TestMissingIsReadFromACopy(t *testing.T) {
	m := newMachine()
	m.put(keyOf(key.Root, v1alpha1.Group, "locations", "", "l"), []byte(`{}`))
	m.put(keyOf("s", v1alpha1.Group, "placements", "", "p"), placementOf("s", "x"))
	for i, is := range []string{"x", "y"} {
		m.put(keyOf("s", "", "configmaps", "n", fmt.Sprint("o", i)), thing{"s", "r", "Helm", is, false}.value())
	}
	_, objects := m.index.firstParts(key.Placement{Space: "s", Name: "p"}, "s")
	m.index.mu.Lock() // nothing waits for it
	got := missing(objects[0], "p", "s")
	m.index.mu.Unlock()
	m.put(keyOf("s", "", "configmaps", "n", "o1"), nil)
	if again := missing(objects[0], "p", "s"); !slices.Equal(got, []string{"core/configmaps/n/o1"}) || !slices.Equal(again, got) {
		t.Errorf("missing are %q, and after a change %q", got, again)
	}
}

func TestPartSays(t *testing.T) {
	p := PartialRelease{Release: "store/web", Matched: 2, Objects: 6, Missing: []string{"core/services/store/web", "x", "y"}}
	want := "matches 2 of the 6 objects of Helm release store/web, not core/services/store/web, x, y and 1 more"
	if p.String() != want {
		t.Errorf("%q, want %q", p, want)
	}
}

// BenchmarkParts asks of a release of 10,000 objects, half of which are matched, and
// edits one of them.
func BenchmarkParts(b *testing.B) {
	m := newMachine()
	m.put(keyOf(key.Root, v1alpha1.Group, "locations", "", "l"), []byte(`{}`))
	m.put(keyOf("s", v1alpha1.Group, "placements", "", "p"), placementOf("s", "x"))
	for i := range 10_000 {
		m.put(keyOf("s", "", "configmaps", "n", fmt.Sprint("o", i)), thing{"s", "r", "Helm", []string{"x", "y"}[i%2], false}.value())
	}
	b.Run("ask", func(b *testing.B) {
		for b.Loop() {
			if len(m.index.PartialReleases(key.Placement{Space: "s", Name: "p"}, "s")) != 1 {
				b.Fatal("it is whole")
			}
		}
	})
	row := m.table.Snapshot().Get(keyOf("s", "", "configmaps", "n", "o1"))
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			m.index.Observe(1, []table.Change{{Prev: row, Cur: &table.Row{Entry: row.Entry}}, {Prev: &table.Row{Entry: row.Entry}, Cur: row}})
		}
	})
}
