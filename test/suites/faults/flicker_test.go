package faults

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// TestFlicker takes all objects from a location and assigns them again while their
// removal is under way: all come back.
func TestFlicker(t *testing.T) {
	t.Parallel()
	const objects, times = 10, 12
	e := newEdge(t)
	env.Kubectl(t, e.Root, "patch", "location", "edge", "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
	for n := range objects {
		e.put(fmt.Sprint("o-", n), "1")
	}
	locations := world.Dynamic(t, e.Hub.PathConfig("spaces/root")).Resource(world.Locations)
	label := func(value string) {
		t.Helper()
		if _, err := locations.Patch(t.Context(), "edge", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"site":`+value+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	random := seeds.Rand(t, 1)
	for i := range times {
		for n := range objects {
			e.waitFor(fmt.Sprint("o-", n), "1")
		}
		if i%3 == 0 {
			e.Link.Slow(time.Duration(random.IntN(100))*time.Millisecond, 50<<10)
		} else {
			e.Link.Heal()
		}
		label("null")
		<-time.After(time.Duration(random.IntN(120)) * time.Millisecond)
		label(`"edge"`)
	}
	e.Invariants()
}
