package placement

import (
	"fmt"
	"runtime"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/seeds"
)

// heap is what is in use of it, without garbage.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what only weak pointers hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // #nosec G115 -- a heap is smaller
}

// TestNamesTakeLittleMemory: what the indexes keep of an object that mentions many names of things that do
// not exist is a small multiple of the object.
func TestNamesTakeLittleMemory(t *testing.T) {
	const names = 37_000
	var locations []string
	var secrets []any
	for i := range names {
		locations = append(locations, fmt.Sprint("l", i))
		secrets = append(secrets, map[string]any{"name": fmt.Sprint("s", i)})
	}
	account := objectAt("s", "", "serviceaccounts", "n", "x")
	for what, c := range seeds.Ordered(map[string]struct {
		x *thing
		// most is how many bytes each name may take, besides the object itself.
		most int64
	}{
		"locations in an annotation": {&thing{annotations: map[string]string{v1alpha1.AssignedLocationsAnnotation: string(mustJSON(locations))}}, 64},
		"references to pull secrets": {&thing{pulled: secrets}, 400},
	}) {
		_, w := newTable()
		rev := int64(0)
		apply := func(updates ...table.Update) {
			t.Helper()
			rev++
			for i := range updates {
				updates[i].CreateRev, updates[i].ModRev = 1, rev
			}
			if err := w.Apply(rev, updates); err != nil {
				t.Fatal(err)
			}
		}
		apply(table.Update{Key: locationAt("a").Key(), Value: (&thing{uid: "a"}).value()}, table.Update{Key: placementAt("s", "p").Key(), Value: (&thing{
			uid: "p", status: v1alpha1.PlacementStatus{Follows: []v1alpha1.Follows{{Entry: 0, Resources: []string{"secrets"}}}},
			spec: v1alpha1.PlacementSpec{
				Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
				Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"serviceaccounts"}}, FollowReferences: true}},
			},
		}).value()})
		c.x.uid = "x"
		value := c.x.value()
		before := heap()
		apply(table.Update{Key: account.Key(), Value: value})
		if each := (heap() - before) / names; each > c.most {
			t.Errorf("%s: each name takes %d bytes, want at most %d", what, each, c.most)
		}
		runtime.KeepAlive(value)
		runtime.KeepAlive(w)
	}
}
