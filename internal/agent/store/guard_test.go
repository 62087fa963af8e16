package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// placementOf is the Placement that let go of an object of guardThem.
func placementOf(i int) string { return []string{"p", "p", "q", "", "q"}[i] }

// guardThem records objects of two spaces, of several Placements, and has their
// removals wait.
func guardThem(t *testing.T, s *Store) {
	t.Helper()
	if err := write(s, func(x *Tx) error {
		x.meta.Fresh = false
		for i := range 5 {
			id, space := fmt.Sprintf("core/configmaps/n/o%d", i), key.Space("s")
			if i > 2 {
				space = "z"
			}
			if err := errors.Join(x.Records.set(id, &Record{Space: space, UID: fmt.Sprint("u", i)}), x.Removals.add(id, pendingRemoval{Cause: wire.Unassigned, Placement: placementOf(i)})); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func pendingOf(t *testing.T, s *Store) (p *wire.PruneStatus) {
	t.Helper()
	if err := s.View(func(x *Tx) (err error) {
		p, err = x.Removals.Status()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConfirm shows what a confirmation lets go: exactly what its digest names.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name    string
		confirm func(*wire.PruneStatus) wire.Settings
		left    int
	}{
		{"another digest", func(*wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: strings.Repeat("0", pruneDigest)}, {}}}
		}, 5},
		{"all", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Digest}}}
		}, 0},
		{"those of one space, by an operator", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Spaces[0].Digest}}}
		}, 2},
		{"those of one space, by its owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Spaces[1].Digest}}}
		}, 3},
		{"those of another space, by an owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Spaces[0].Digest}, {Space: "z", Digest: p.Digest}}}
		}, 5},
		{"those of one Placement, by an operator", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Digest: p.Placements[0].Digest}}}
		}, 3},
		{"those of two Placements, by their owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "s", Digest: p.Placements[0].Digest}, {Space: "s", Digest: p.Placements[1].Digest}}}
		}, 2},
		{"those of another space's Placement of the name, by an owner", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "s", Digest: p.Placements[3].Digest}, {Space: "s", Digest: p.Placements[2].Digest}}}
		}, 5},
		{"those of which no Placement is known", func(p *wire.PruneStatus) wire.Settings {
			return wire.Settings{Confirm: []wire.Confirmation{{Space: "z", Digest: p.Placements[2].Digest}}}
		}, 4},
		{"a purge", func(*wire.PruneStatus) wire.Settings { return wire.Settings{Purge: true} }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := opened(t)
			guardThem(t, s)
			before := pendingOf(t, s)
			if before.Pending != 5 || len(before.Spaces) != 2 || len(before.Placements) != 4 || before.Placements[2].Placement != "" || before.Objects[0] != "s/core/configmaps/n/o0" {
				t.Fatalf("pending %+v", before)
			}
			settings := c.confirm(before)
			var all []Touched
			if err := write(s, func(x *Tx) (err error) {
				all, _, err = Intake{Proven: true}.Apply(x, []Arrival{{Frame: wire.Frame{Settings: &settings}}}, now)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			left := 0
			if p := pendingOf(t, s); p != nil {
				left = p.Pending
			}
			for _, o := range all {
				if o.Want != nil || o.Object.Space == "" {
					t.Errorf("touched %+v", o)
				}
			}
			if left != c.left || len(all) != 5-c.left {
				t.Errorf("%d are left and %d touched, want %d left", left, len(all), c.left)
			}
		})
	}
}

// TestGuardSums shows that the digests depend only on the pending removals, and that the number of
// groups is bounded.
func TestGuardSums(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		have, sums := map[string]pendingRemoval{}, GuardSums{}
		for _, id := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "ids") {
			before, copied := sums, maps.Clone(sums)
			if g, ok := have[id]; ok {
				now := sums[g.group()]
				sums = sums.with(g.group(), GuardSum{now.Count - 1, now.Sum.Sub(g.sum(id))})
				delete(have, id)
			} else {
				g := pendingRemoval{
					Space:     rapid.SampledFrom([]key.Space{"s", "z"}).Draw(t, "space"),
					Placement: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "placement"),
					UID:       rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"),
				}
				sums = sums.with(g.group(), sums[g.group()].add(GuardSum{1, g.sum(id)}))
				have[id] = g
			}
			if !maps.Equal(before, copied) {
				t.Fatal("what a copy of meta shares was changed")
			}
		}
		anew, spaces := GuardSums{}, map[key.Space]GuardSum{}
		for _, id := range slices.Sorted(maps.Keys(have)) {
			g := have[id]
			one := GuardSum{1, g.sum(id)}
			anew = anew.with(g.group(), anew[g.group()].add(one))
			spaces[g.Space] = spaces[g.Space].add(one)
		}
		if !maps.Equal(anew, sums) || !maps.Equal(spaces, sums.bySpace()) {
			t.Fatalf("%v, counted anew %v", sums, anew)
		}
	})
}

// TestConfirmTheOnlyGroup shows that the confirmation of the space's owner is valid also if the
// Placement, the space and the location have the same digest.
func TestConfirmTheOnlyGroup(t *testing.T) {
	sums := GuardSums{"s/p": {1, wire.SumOf([]byte("x"))}}
	digest := sums.Total().Digest()
	for space, want := range map[string]bool{"": true, "s": true, "z": false, "s/p": false} {
		if got := sums.confirmed(wire.Settings{Confirm: []wire.Confirmation{{Space: space, Digest: digest}}})["s/p"]; got != want {
			t.Errorf("confirmed in space %q: %v", space, got)
		}
	}
}

// TestGuardGroups shows that the number of groups is bounded, however many Placements have pending
// removals, and that the pending removals in a store of an older agent stay pending.
func TestGuardGroups(t *testing.T) {
	s := opened(t)
	if err := write(s, func(x *Tx) error {
		for i := range 3 * maxGroups {
			id := fmt.Sprintf("core/configmaps/n/o%d", i)
			if err := errors.Join(x.Records.set(id, &Record{Space: "s", UID: fmt.Sprint("u", i)}), x.Removals.add(id, pendingRemoval{Cause: wire.Unassigned, Placement: fmt.Sprint("p", i)})); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p := pendingOf(t, s)
	if n := len(p.Placements); p.Pending != 3*maxGroups || n != maxGroups+1 || p.Placements[0].Placement != "" || p.Placements[0].Pending != 2*maxGroups {
		t.Errorf("%d groups, %d removals: %+v", n, p.Pending, p.Placements[0])
	}
	var meta Meta
	if err := json.Unmarshal([]byte(`{"guarded":{"s":{"count":2,"sum":"`+p.Digest+strings.Repeat("0", 48)+`"}}}`), &meta); err != nil {
		t.Fatal(err)
	}
	if sum := meta.Guarded.bySpace()["s"]; sum.Count != 2 || sum.Digest() != p.Digest {
		t.Errorf("as older agents have it: %+v", meta.Guarded)
	}
}
