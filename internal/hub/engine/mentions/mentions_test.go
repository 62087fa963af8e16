package mentions

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"orrery.dev/orrery/test/support/seeds"
)

// TestIndex: an Index has what a map of sets has.
func TestIndex(t *testing.T) {
	r := seeds.Rand(t, 1)
	x, want := New(), map[string]map[string]bool{}
	for range seeds.Count(t, 5000) {
		name, key := fmt.Sprint("n", r.IntN(20)), fmt.Sprint("k", r.IntN(20))
		if r.IntN(2) == 0 {
			x.Remove(name, key)
			delete(want[name], key)
			continue
		}
		x.Add(name, key)
		if want[name] == nil {
			want[name] = map[string]bool{}
		}
		want[name][key] = true
	}
	again := New()
	for i := range 20 {
		name := fmt.Sprint("n", i)
		if got, want := slices.Collect(x.Keys(name)), slices.Sorted(maps.Keys(want[name])); !slices.Equal(got, want) {
			t.Errorf("%s is mentioned by %v, want %v", name, got, want)
		}
		for k := range x.Keys(name) {
			again.Add(name, k)
		}
	}
	if !x.Equal(again) {
		t.Error("an Index with the same mentions is not equal")
	}
	if again.Add("n1", "another"); x.Equal(again) {
		t.Error("an Index with another mention is equal")
	}
}

// TestMemory: many names of one object take little memory each.
func TestMemory(t *testing.T) {
	const names, most = 37_000, 64
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, x, k := heap(), New(), "o/s/core/configmaps/default/x"
	for i := range names {
		x.Add(fmt.Sprint("l", i), k)
	}
	if each := (int64(heap()) - int64(before)) / names; each > most { // #nosec G115 -- a heap is smaller
		t.Errorf("a name takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(x)
}
