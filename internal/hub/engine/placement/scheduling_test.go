package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// pickOf are the locations that are picked of some.
func pickOf(uid string, pick v1alpha1.Pick, sites map[key.Location]*site) []key.Location {
	sets := &locationSets{}
	var names []key.Location
	for l := range sites {
		names = append(names, l)
	}
	slices.Sort(names)
	p := &placement{scope: scope{set: sets.intern(names, nil), scheduling: &scheduling{uid: uid, pick: &pick, barred: sets.intern(nil, nil)}}}
	return p.choose(nil, sites)
}

// TestPickMovesLittle sees that one location more or less, or with another value of the
// label, moves no more seats than it must, that more seats leave those that there are where
// they are, and that values of a label get equally many, as far as there are.
func TestPickMovesLittle(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		pick := v1alpha1.Pick{Count: rapid.Int32Range(1, 12).Draw(t, "count"), SpreadBy: rapid.SampledFrom([]string{"", "region"}).Draw(t, "spreadBy")}
		region := func(label string) table.Labels {
			if r := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, label); r != "" {
				return table.Labels{{Key: "region", Value: r}}
			}
			return nil
		}
		sites := map[key.Location]*site{}
		for i := range rapid.IntRange(0, 15).Draw(t, "locations") {
			l := key.Location(fmt.Sprint("l", i))
			sites[l] = &site{Site: Site{Name: l, Labels: region("region of " + string(l))}, uid: rapid.StringMatching("[a-f]{4}").Draw(t, "uid")}
		}
		old := pickOf("p", pick, sites)
		if want := min(int(pick.Count), len(sites)); len(old) != want {
			t.Fatalf("%d picked, want %d", len(old), want)
		}
		if pick.SpreadBy != "" {
			checkSpread(t, old, sites)
		}
		more := pick
		more.Count++
		if now := pickOf("p", more, sites); !containsAll(now, old) {
			t.Fatalf("%v with one seat more is %v", old, now)
		}
		sites["new"] = &site{Site: Site{Name: "new", Labels: region("region of new")}, uid: "new"}
		now := pickOf("p", pick, sites)
		if left := leavers(old, now); left > 1 || left == 1 && !slices.Contains(now, "new") {
			t.Fatalf("%v with one location more is %v", old, now)
		}
		sites["new"] = &site{Site: Site{Name: "new", Labels: region("other region of new")}, uid: "new"}
		if left := leavers(now, pickOf("p", pick, sites)); left > 2 {
			t.Fatalf("%v with another label of new is %v", now, pickOf("p", pick, sites))
		}
	})
}

// checkSpread sees that no value has two seats more than another that has a location left.
func checkSpread(t *rapid.T, picked []key.Location, sites map[key.Location]*site) {
	have, free := map[string]int{}, map[string]bool{}
	for l, loc := range sites {
		value := loc.Labels.Get("region")
		if slices.Contains(picked, l) {
			have[value]++
		} else {
			free[value] = true
		}
	}
	for value := range free {
		for other, n := range have {
			if n > have[value]+1 {
				t.Fatalf("%q has %d seats, %q has %d and a location left", other, n, value, have[value])
			}
		}
	}
}

func containsAll(all, some []key.Location) bool { return leavers(some, all) == 0 }

// leavers counts those that are no longer picked.
func leavers(old, now []key.Location) (n int) {
	for _, l := range old {
		if !slices.Contains(now, l) {
			n++
		}
	}
	return n
}

// TestPicksDiffer sees that Placements pick different locations, each about as often.
func TestPicksDiffer(t *testing.T) {
	sites, picked := map[key.Location]*site{}, map[key.Location]int{}
	for i := range 10 {
		l := key.Location(fmt.Sprint("l", i))
		sites[l] = &site{Site: Site{Name: l}, uid: fmt.Sprint("uid of ", l)}
	}
	for i := range 2000 {
		for _, l := range pickOf(fmt.Sprint("placement ", i), v1alpha1.Pick{Count: 3}, sites) {
			picked[l]++
		}
	}
	for l, n := range picked {
		if n < 500 || n > 700 {
			t.Errorf("%s is picked by %d of 2000, of 600 on average", l, n)
		}
	}
}
