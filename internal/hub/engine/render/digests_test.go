package render

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

func manyClasses(n int) (all []*placement.Class) {
	for i := range n {
		all = append(all, class(fmt.Sprint(i)))
	}
	return all
}

// What has a rendering of its own at each of many locations is rendered once for each, however
// often their digests are asked for and however little else is kept.
func TestDigestsOfManyClasses(t *testing.T) {
	r := newCounted()
	r.kept.most = 0
	classes := manyClasses(300)
	var entries []*table.Entry
	for i := range 20 {
		entries = append(entries, entry(fmt.Sprint(i), "x"))
	}
	for range 3 {
		for _, c := range classes {
			for i, e := range entries {
				if sum, err := r.Digest(e, c); err != nil || sum != wire.SumOf([]byte(want(fmt.Sprint(i), "x", c))) {
					t.Fatalf("%d for %s: %s %v", i, c, sum, err)
				}
			}
		}
	}
	if n := r.made.Load(); n != int64(len(classes)*len(entries)) {
		t.Errorf("rendered %d times", n)
	}
}

// A status that is written at an object has it rendered for none of a thousand locations anew.
func TestStatusesRenderNothing(t *testing.T) {
	r := newCounted()
	r.kept.most = 0
	classes := manyClasses(300)
	render := func(metadata, rest string) (all []wire.Sum, rendered int64) {
		before := r.made.Load()
		e := table.NewEntry("o/s/apps/deployments/n/x", []byte(`{"metadata":{"name":"x","uid":"u"`+metadata+`},`+rest+`}`), 1, 1)
		for _, c := range classes {
			sum, err := r.Digest(e, c)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sum)
		}
		return all, r.made.Load() - before
	}
	before, _ := render("", `"spec":{"replicas":3}`)
	after, n := render(`,"resourceVersion":"8","managedFields":[{"manager":"orrery-status"}]`, `"spec":{"replicas":3},"status":{"replicas":3}`)
	if n > 2 || !slices.Equal(before, after) {
		t.Errorf("a status has the object rendered %d times, alike: %v", n, slices.Equal(before, after))
	}
	if other, n := render("", `"spec":{"replicas":4}`); n != int64(len(classes)) || slices.Contains(before, other[0]) {
		t.Errorf("a change has it rendered %d times", n)
	}
}

// TestDigestsAreBounded: the cache is bounded, correct for all bounds, and keeps nothing else in
// memory.
func TestDigestsAreBounded(t *testing.T) {
	r := newCounted()
	r.kept.most, r.digests.most = 0, 10
	w := weak.Make(lookAtMany(t, r))
	for range 3 {
		runtime.GC()
	}
	if w.Value() != nil || len(r.digests.young) == 0 {
		t.Errorf("an entry is kept alive by its digests, or there are none: %d", len(r.digests.young))
	}
}

// lookAtMany asks for the digests of an entry for more classes than are kept.
func lookAtMany(t *testing.T, r *counted) *table.Entry {
	t.Helper()
	classes, e := manyClasses(50), entry("x", "1")
	for i := range 500 {
		c := classes[i*7%len(classes)]
		if sum, err := r.Digest(e, c); err != nil || sum != wire.SumOf([]byte(want("x", "1", c))) {
			t.Fatalf("%s: %s %v", c, sum, err)
		}
		if len(r.digests.young) > 10 || len(r.digests.old) > 10 {
			t.Fatalf("%d and %d digests are kept", len(r.digests.young), len(r.digests.old))
		}
	}
	return e
}

// BenchmarkDigests measures a repeated rendering of an object of two kilobytes that differs at each
// of a thousand locations, with and without the cache.
func BenchmarkDigests(b *testing.B) {
	ruling, err := rules.New()
	if err != nil {
		b.Fatal(err)
	}
	p := ruling.Prepare("c", rules.Space{}, []v1alpha1.Rule{{Path: "$.data.site", Expression: "location.name + '.example'"}})
	for name, most := range map[string]int{"kept": keptDigests, "not kept": 0} {
		b.Run(name, func(b *testing.B) {
			r := New(builtins())
			r.Follow = Customizing(ruling)
			r.digests.most, r.kept.most = most, 0
			e := entry("x", strings.Repeat("x", 2000))
			var classes []*placement.Class
			for i := range 1000 {
				l := rules.Location{Name: fmt.Sprintf("location-%d", i)}
				classes = append(classes, &placement.Class{Inputs: []placement.Input{{Rules: p.Text, Needs: p.Needs(l)}}})
			}
			render := func(i int) {
				if _, err := r.Digest(e, classes[i%len(classes)]); err != nil {
					b.Fatal(err)
				}
			}
			for i := range classes {
				render(i)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				render(i)
			}
		})
	}
}

// BenchmarkDigestSize is how many bytes are kept for a digest.
func BenchmarkDigestSize(b *testing.B) {
	r, classes := newCounted(), manyClasses(1000)
	d := &r.digests
	d.most = 1 << 30
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	var entries []*table.Entry
	for b.Loop() {
		e := entry(fmt.Sprint(n), "x")
		entries = append(entries, e)
		for _, c := range classes {
			r.keep(e, &table.Rendered{Inputs: c})
			n++
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "bytes/digest")
	runtime.KeepAlive(entries)
	runtime.KeepAlive(d.young)
}
