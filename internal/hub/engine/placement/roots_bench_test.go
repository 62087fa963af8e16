package placement

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// BenchmarkPlacementOfRoot is what changes cost where a Placement of root reaches 10,000
// spaces of 10 objects each, which are at 2 locations.
func BenchmarkPlacementOfRoot(b *testing.B) {
	const spaces, objects = 10_000, 10
	w := world{}
	for i := range benchLocations {
		w[locationAt(key.Location(fmt.Sprintf("l%d", i))).Key()] = &thing{createRev: 1, uid: fmt.Sprint("l", i), labels: map[string]string{"site": fmt.Sprint(i / 2)}}
	}
	for i := range spaces {
		s := key.Space(fmt.Sprintf("s%d", i))
		w[spaceAt(s).Key()] = &thing{createRev: 1, labels: map[string]string{"tier": "gold"}}
		for j := range objects {
			w[objectAt(s, "", "configmaps", "default", fmt.Sprintf("c%d-%d", i, j)).Key()] = &thing{createRev: 1, labels: map[string]string{"audit": "yes"}}
		}
	}
	spec := func(site int64) *thing {
		return &thing{spec: v1alpha1.PlacementSpec{
			Spaces:    &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}},
			Locations: []v1alpha1.LocationSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": fmt.Sprint(site)}}}},
			Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{
				APIGroup: new(string), Resources: []string{"configmaps"}, LabelSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"audit": "yes"}}},
			}}},
		}}
	}
	t := table.New(table.Config{Deriver: New(), WindowSteps: 10, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	rev := int64(1)
	run := func(name string, change func(int64) (key.Object, *thing)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rev++
				o, x := change(rev)
				apply(b, t, rev, o, x)
			}
		})
	}
	run("edit", func(rev int64) (key.Object, *thing) { return placementAt(key.Root, "p"), spec(rev % 2) })
	run("object", func(rev int64) (key.Object, *thing) {
		i := rev % spaces
		return objectAt(key.Space(fmt.Sprintf("s%d", i)), "", "configmaps", "default", fmt.Sprintf("c%d-3", i)), &thing{labels: map[string]string{"audit": "yes"}}
	})
	run("space", func(rev int64) (key.Object, *thing) {
		return spaceAt("s7"), &thing{labels: map[string]string{"tier": []string{"gold", "tin"}[rev%2]}}
	})
	run("other location", func(rev int64) (key.Object, *thing) {
		return locationAt("l7"), &thing{labels: map[string]string{"site": "3", "rev": fmt.Sprint(rev)}}
	})
}
