package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

type leafSet map[string]int

func (s leafSet) index(t testing.TB) *Index {
	t.Helper()
	var leaves []Leaf
	for _, k := range slices.Sorted(maps.Keys(s)) {
		leaves = append(leaves, Leaf{Key: k, Sum: SumOf(fmt.Appendf(nil, "%s=%d", k, s[k]))})
	}
	ix, err := NewIndex(leaves)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// difference finds all differences, and counts requests and the bytes of both directions.
func difference(t testing.TB, mine, theirs *Index) (all Difference, requests, bytes int) {
	t.Helper()
	pending := []Span{mine.Span("", "")}
	if pending[0] == theirs.Span("", "") {
		return all, 0, 0
	}
	for len(pending) > 0 {
		page := pending[:min(len(pending), MaxSpans)]
		pending = pending[len(page):]
		answer := theirs.Answer(page)
		requests++
		for _, v := range []any{page, answer} {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(text)
		}
		for _, p := range answer {
			d := mine.Compare(p)
			pending = append(pending, d.Next...)
			all.Theirs = append(all.Theirs, d.Theirs...)
			all.Mine = append(all.Mine, d.Mine...)
		}
	}
	slices.Sort(all.Theirs)
	slices.Sort(all.Mine)
	return all, requests, bytes
}

// TestDifferenceIsExact compares the result with the difference of two sets.
func TestDifferenceIsExact(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		mine, theirs := leafSet{}, leafSet{}
		for i := range rapid.IntRange(0, 3000).Draw(t, "size") {
			k := fmt.Sprintf("s/core/configmaps/ns/%05d", i)
			mine[k], theirs[k] = 1, 1
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 3000), 0, 60).Draw(t, "changes") {
			k := fmt.Sprintf("s/core/configmaps/ns/%05d", i)
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				delete(mine, k)
			case 1:
				delete(theirs, k)
			case 2:
				theirs[k] = 2
			case 3:
				mine[k] = 3
			}
		}
		var want Difference
		for k := range mine {
			if _, ok := theirs[k]; !ok {
				want.Mine = append(want.Mine, k)
			}
		}
		for k, v := range theirs {
			if w, ok := mine[k]; !ok || w != v {
				want.Theirs = append(want.Theirs, k)
			}
		}
		slices.Sort(want.Mine)
		slices.Sort(want.Theirs)
		got, _, _ := difference(&testing.T{}, mine.index(&testing.T{}), theirs.index(&testing.T{}))
		if !slices.Equal(got.Mine, want.Mine) || !slices.Equal(got.Theirs, want.Theirs) {
			t.Fatalf("found %d and %d, want %d and %d", len(got.Mine), len(got.Theirs), len(want.Mine), len(want.Theirs))
		}
	})
}

// TestFewDifferencesCostLittle: the cost depends on the size of the difference.
func TestFewDifferencesCostLittle(t *testing.T) {
	mine, theirs := leafSet{}, leafSet{}
	for i := range 50000 {
		k := fmt.Sprintf("space/core/configmaps/default/object-%05d", i)
		mine[k], theirs[k] = 1, 1
	}
	theirs["space/core/configmaps/default/object-31415"] = 2
	got, requests, bytes := difference(t, mine.index(t), theirs.index(t))
	if len(got.Theirs) != 1 || len(got.Mine) != 0 {
		t.Fatalf("found %v", got)
	}
	if requests > 4 || bytes > 32<<10 {
		t.Fatalf("one difference in 50,000 took %d requests and %d bytes", requests, bytes)
	}
	t.Logf("%d requests, %d bytes", requests, bytes)
	if _, requests, bytes = difference(t, leafSet{}.index(t), theirs.index(t)); requests > 100 {
		t.Fatalf("all of 50,000 took %d requests and %d bytes", requests, bytes)
	}
	t.Logf("everything: %d requests, %d bytes", requests, bytes)
}

func TestIndexRefusesDisorder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}} {
		var leaves []Leaf
		for _, k := range keys {
			leaves = append(leaves, Leaf{Key: k})
		}
		if _, err := NewIndex(leaves); err == nil {
			t.Errorf("took leaves %q", keys)
		}
	}
}
