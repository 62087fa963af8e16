package placement

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// BenchmarkLocationJoinsWatched lets one of a thousand locations join and leave the locations of
// some objects, with a subscriber for each location.
func BenchmarkLocationJoinsWatched(b *testing.B) {
	const objects = 20
	w := world{}
	for i := range benchLocations {
		o := locationAt(key.Location(fmt.Sprintf("l%d", i)))
		w[o.Key()] = &thing{createRev: 1, uid: o.Path(), labels: map[string]string{"in": "yes"}}
	}
	p := placementAt("s", "p")
	w[p.Key()] = &thing{createRev: 1, uid: p.Path(), spec: v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "yes"}}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"deployments"}}}},
	}}
	for i := range objects {
		o := objectAt("s", "apps", "deployments", "default", fmt.Sprintf("web-%d", i))
		w[o.Key()] = &thing{createRev: 1, uid: o.Path()}
	}
	t := table.New(table.Config{Deriver: New(), WindowSteps: 1000, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	var followers []*table.Subscription
	for i := range benchLocations {
		sub, err := t.Subscribe(1, nil, table.LocationTopic(key.Location(fmt.Sprintf("l%d", i))))
		if err != nil {
			b.Fatal(err)
		}
		defer sub.Close()
		followers = append(followers, sub)
	}
	notified := func() (changes int) {
		for _, sub := range followers {
			select {
			case <-sub.Wake():
			default:
				continue
			}
			steps, _, err := sub.Poll()
			if err != nil {
				b.Fatal(err)
			}
			for _, step := range steps {
				changes += len(step.Changes)
			}
		}
		return changes
	}
	notified()
	rev, changes := int64(1), 0
	for b.Loop() {
		rev++
		apply(b, t, rev, locationAt("l1"), &thing{labels: map[string]string{"in": []string{"no", "yes"}[rev%2]}})
		changes += notified()
	}
	b.ReportMetric(float64(changes)/float64(b.N), "changes-heard/op")
}
