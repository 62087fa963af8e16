package prune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// machine is a world of locations at which removals wait, Placements that confirm
// them, and a hub that writes the Placements' statuses.
type machine struct {
	table *table.Writer
	index *Index
	rev   int64
	// pending are the pending removals that agents report: the objects by location and group.
	pending map[key.Location]map[group]map[string]bool
	// annotations are the annotations of existing Placements.
	annotations map[key.Placement]string
	// shown are the statuses that a hub has written.
	shown map[key.Placement]status
	// meant is what owners have confirmed: by location and space the sets of objects.
	meant map[string]bool
	poked map[key.Location]bool
}

type status struct {
	waiting   *v1alpha1.WaitingPrune
	confirmed []v1alpha1.ConfirmedPrune
}

func newMachine() *machine {
	m := &machine{
		pending: map[key.Location]map[group]map[string]bool{}, annotations: map[key.Placement]string{}, shown: map[key.Placement]status{},
		meant: map[string]bool{}, poked: map[key.Location]bool{},
	}
	m.index = New(func(l key.Location) { m.poked[l] = true })
	m.table = table.New(table.Config{Observer: m.index, WindowSteps: 10, WindowBytes: 1 << 20})
	return m
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (m *machine) put(k string, value any) {
	m.rev++
	u := table.Update{Key: k, CreateRev: 1, ModRev: m.rev}
	if value != nil {
		u.Value = mustJSON(value)
	}
	if err := m.table.Apply(m.rev, []table.Update{u}); err != nil {
		panic(err)
	}
}

func objectKey(s key.Space, r key.Resource, name string) string {
	return key.Object{Space: s, Identity: key.Identity{Resource: r, Name: name}}.Key()
}

// digestOf names a set of objects.
func digestOf(objects map[string]bool) string {
	return wire.SumOf(fmt.Append(nil, slices.Sorted(maps.Keys(objects)))).String()[:digestSize]
}

// announce writes the row of a location as its agent says it is.
func (m *machine) announce(l key.Location) {
	prune := v1alpha1.PendingPrune{Pending: 1}
	for g, objects := range m.pending[l] {
		if len(objects) > 0 {
			prune.Placements = append(prune.Placements, v1alpha1.PlacementPrune{
				Space: string(g.space), Placement: string(g.ref), Pending: int64(len(objects)), Digest: digestOf(objects),
			})
		}
	}
	slices.SortFunc(prune.Placements, func(a, b v1alpha1.PlacementPrune) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Placement, b.Placement))
	})
	m.put(objectKey(key.Root, key.Locations, string(l)), map[string]any{"status": map[string]any{"agent": map[string]any{"prune": prune}}})
}

// write writes the row of a Placement.
func (m *machine) write(p key.Placement) {
	m.put(objectKey(p.Space, key.Placements, p.Name), map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{v1alpha1.ConfirmPruneAnnotation: m.annotations[p]}},
		"status":   map[string]any{"confirmed": m.shown[p].confirmed},
	})
}

// syncStatuses writes the statuses of dirty Placements until none is dirty, as a hub does.
func (m *machine) syncStatuses(t interface{ Fatalf(string, ...any) }) {
	for round := 0; ; round++ {
		dirty := m.index.Dirty()
		if len(dirty) == 0 {
			return
		}
		if round > 5 {
			t.Fatalf("still dirty: %v", dirty)
		}
		for _, p := range dirty {
			if _, there := m.annotations[p]; !there {
				continue
			}
			old := m.shown[p]
			waiting, confirmed := m.index.Status(p, m.annotations[p], old.confirmed)
			m.shown[p] = status{waiting, confirmed}
			if !slices.Equal(confirmed, old.confirmed) {
				m.write(p)
			}
		}
	}
}

var (
	testPlacements = []key.Placement{{Space: "s", Name: "p"}, {Space: "s", Name: "q"}, {Space: "z", Name: "p"}, {Space: key.Root, Name: "p"}}
	testGroups     = []group{{"s", "p"}, {"s", "q"}, {"z", "p"}, {"s", ""}, {"s", "root/p"}, {"z", "root/p"}, {"z", "root/gone"}}
	testLocations  = []key.Location{"a", "b", "c"}
)

func (m *machine) wait(t *rapid.T) {
	l := rapid.SampledFrom(testLocations).Draw(t, "location")
	p := rapid.SampledFrom(testGroups).Draw(t, "of")
	if m.pending[l] == nil {
		m.pending[l] = map[group]map[string]bool{}
	}
	if m.pending[l][p] == nil {
		m.pending[l][p] = map[string]bool{}
	}
	o := string(l) + string(p.ref) + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "object")
	if rapid.Bool().Draw(t, "waits") {
		m.pending[l][p][o] = true
	} else {
		delete(m.pending[l][p], o)
	}
	m.announce(l)
}

// confirm has a Placement's owner confirm what its, or another's, status shows.
func (m *machine) confirm(t *rapid.T) {
	m.syncStatuses(t)
	p := rapid.SampledFrom(testPlacements).Draw(t, "owner")
	all := m.index.Waiting(p.Space)
	if len(all) == 0 {
		return
	}
	w := rapid.SampledFrom(all).Draw(t, "what")
	m.annotations[p] = w.Digest
	for l, groups := range m.pending {
		for g, objects := range groups {
			if visible := g.space == p.Space || p.Space == key.Root; visible && g.placement() == w.Placement.Resolve(p.Space) && w.Digest != "" && len(objects) > 0 {
				m.meant[fmt.Sprint(l, g.space, digestOf(objects))] = true
			}
		}
	}
	m.write(p)
}

// hear has a location's agent remove what is confirmed.
func (m *machine) hear(t *rapid.T) {
	m.syncStatuses(t)
	l := rapid.SampledFrom(testLocations).Draw(t, "location")
	for p, objects := range m.pending[l] {
		c := wire.Confirmation{Space: string(p.space), Digest: digestOf(objects)}
		if len(objects) > 0 && slices.Contains(m.index.Confirmations(l), c) {
			if !m.meant[fmt.Sprint(l, p.space, c.Digest)] {
				t.Fatalf("%s lets go %v of %v, which nobody confirmed", l, objects, p)
			}
			clear(objects)
		}
	}
	m.announce(l)
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

// confirmed reports whether the status of any Placement confirms the pending removals of a group at
// a location.
func (m *machine) confirmed(g group, l key.Location, digest string) bool {
	for q, other := range m.shown {
		c := v1alpha1.ConfirmedPrune{Location: string(l), Digest: digest}
		if q.Space == key.Root {
			c.Space = string(g.space)
		}
		if (q.Space == g.space || q.Space == key.Root && g.reached()) && slices.Contains(other.confirmed, c) {
			return true
		}
	}
	return false
}

// check recounts the pending removals, and checks that confirmations reach the agent.
func (m *machine) check(t *rapid.T) {
	m.syncStatuses(t)
	for p, shown := range m.shown {
		want := v1alpha1.WaitingPrune{}
		open := 0
		for l, groups := range m.pending {
			here := 0
			for g, objects := range groups {
				if g.placement() != p {
					continue
				}
				if here += len(objects); len(objects) == 0 {
					continue
				}
				if !m.confirmed(g, l, digestOf(objects)) {
					open++
				} else if c := (wire.Confirmation{Space: string(g.space), Digest: digestOf(objects)}); !slices.Contains(m.index.Confirmations(l), c) {
					t.Fatalf("%v is confirmed, and %s does not hear of it", c, l)
				}
			}
			if want.Pending += int64(here); here > 0 {
				want.Locations++
			}
		}
		if want.Locations == 0 {
			if shown.waiting != nil {
				t.Fatalf("%v: %+v waits", p, shown.waiting)
			}
			continue
		}
		got := *shown.waiting
		if got.Digest == "" != (open == 0) {
			t.Fatalf("%v: digest %q for %d locations that are not confirmed", p, got.Digest, open)
		}
		if got.Digest = ""; got != want {
			t.Fatalf("%v: %+v, want %+v", p, got, want)
		}
	}
	if again := m.index.Dirty(); len(again) > 0 {
		t.Fatalf("dirty without a change: %v", again)
	}
}

// TestIndex checks, over random changes, that the sums of pending removals equal a recount, that
// confirmations reach agents until they are executed, also after a restart, and that no location
// removes objects that were not pending at the time of the confirmation.
func TestIndex(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := newMachine()
		for _, p := range testPlacements {
			m.annotations[p] = ""
			m.write(p)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "wait": m.wait, "wait more": m.wait, "confirm": m.confirm, "hear": m.hear, "restart": m.restart,
		})
	})
}

// TestOnlyRootReaches shows that what a status says of another space is believed of a
// Placement in root alone, and of what Placements of root no longer assign.
func TestOnlyRootReaches(t *testing.T) {
	m := newMachine()
	m.pending["a"] = map[group]map[string]bool{{"s", "p"}: {"x": true}, {"s", "root/p"}: {"y": true}}
	m.announce("a")
	digest := func(name string) string { return digestOf(map[string]bool{name: true}) }
	for _, one := range []struct {
		placement key.Placement
		digest    string
		allowed   bool
	}{
		{key.Placement{Space: "z", Name: "p"}, digest("x"), false},
		{key.Placement{Space: "z", Name: "p"}, digest("y"), false},
		{key.Placement{Space: key.Root, Name: "q"}, digest("x"), false},
		{key.Placement{Space: key.Root, Name: "q"}, digest("y"), true},
	} {
		forged := []v1alpha1.ConfirmedPrune{{Location: "a", Space: "s", Digest: one.digest}}
		m.shown[one.placement] = status{confirmed: forged}
		m.write(one.placement)
		if confirmed := len(m.index.Confirmations("a")) > 0; confirmed != one.allowed {
			t.Errorf("%v confirms %s: %v", one.placement, one.digest, confirmed)
		}
		if _, kept := m.index.Status(one.placement, "", forged); len(kept) > 0 != one.allowed {
			t.Errorf("%v keeps %v", one.placement, kept)
		}
	}
}

// TestForgets checks that deleted objects leave no state.
func TestForgets(t *testing.T) {
	m := newMachine()
	empty := New(func(key.Location) {})
	for range 2 {
		m.pending["a"] = map[group]map[string]bool{{"s", "p"}: {"x": true}}
		m.announce("a")
		p := key.Placement{Space: "s", Name: "p"}
		m.annotations[p] = m.index.Waiting("s")[0].Digest
		m.write(p)
		m.syncStatuses(t)
		if len(m.index.Confirmations("a")) == 0 {
			t.Fatal("nothing is confirmed")
		}
		m.put(objectKey(key.Root, key.Locations, "a"), nil)
		m.put(objectKey("s", key.Placements, "p"), nil)
		m.index.Dirty()
		for name, pair := range map[string][2]any{
			"places": {m.index.places, empty.places}, "groups": {m.index.groups, empty.groups},
			"owners": {m.index.owners, empty.owners}, "let": {m.index.let, empty.let}, "dirty": {m.index.dirty, empty.dirty},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: %v is left", name, pair[0])
			}
		}
		clear(m.shown)
	}
}

// BenchmarkConfirm confirms the pending removals at 5,000 locations, and reads the confirmations
// for each of them.
func BenchmarkConfirm(b *testing.B) {
	m := newMachine()
	for i := range maxConfirmed {
		l := key.Location(fmt.Sprint("l", i))
		m.pending[l] = map[group]map[string]bool{{"s", "p"}: {"x": true}}
		m.announce(l)
	}
	digest := m.index.Waiting("s")[0].Digest
	for b.Loop() {
		_, confirmed := m.index.Status(key.Placement{Space: "s", Name: "p"}, digest, nil)
		if len(confirmed) != maxConfirmed {
			b.Fatal(len(confirmed))
		}
	}
}
