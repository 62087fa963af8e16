package placement

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	benchSpaces    = 1000
	benchObjects   = 50 // in each space
	benchLocations = 1000
)

// benchTable is a hub's state: each space has one Placement, which selects the
// location of its number, by label, and those labelled "everywhere".
func benchTable(b *testing.B) *table.Writer {
	b.Helper()
	w := world{}
	add := func(o key.Object, x *thing) {
		x.createRev, x.uid = 1, o.Path()
		w[o.Key()] = x
	}
	for i := range benchLocations {
		add(locationAt(key.Location(fmt.Sprintf("l%d", i))), &thing{labels: map[string]string{"site": fmt.Sprint(i)}})
	}
	for i := range benchSpaces {
		space := key.Space(fmt.Sprintf("s%d", i))
		add(placementAt(space, "p"), &thing{spec: v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{
				{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": fmt.Sprint(i)}}},
				{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"everywhere": "true"}}},
			},
			Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{
				Namespaces:     []string{"default"},
				LabelSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}},
			}}},
		}})
		for j := range benchObjects {
			// The same identities in every space, as where each tenant has its "web".
			add(objectAt(space, "apps", "deployments", "default", fmt.Sprintf("web-%d", j)), &thing{labels: map[string]string{"app": "web"}})
		}
	}
	t := table.New(table.Config{Deriver: New(), WindowSteps: 1000, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	return t
}

func apply(b *testing.B, t *table.Writer, rev int64, o key.Object, x *thing) {
	b.Helper()
	x.uid = o.Path()
	if err := t.Apply(rev, []table.Update{{Key: o.Key(), Value: x.value(), CreateRev: 1, ModRev: rev}}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkObjectEvent is one edit of one of 50,000 objects.
func BenchmarkObjectEvent(b *testing.B) {
	t := benchTable(b)
	rev := int64(1)
	for b.Loop() {
		rev++
		o := objectAt(key.Space(fmt.Sprintf("s%d", rev%benchSpaces)), "apps", "deployments", "default", "web-7")
		apply(b, t, rev, o, &thing{labels: map[string]string{"app": "web"}})
	}
}

// BenchmarkLocationJoins is a label change that concerns one space's objects.
func BenchmarkLocationJoins(b *testing.B) {
	t := benchTable(b)
	rev := int64(1)
	for b.Loop() {
		rev++
		apply(b, t, rev, locationAt("l1"), &thing{labels: map[string]string{"site": fmt.Sprint(rev%2 + 1)}})
	}
}

// BenchmarkLocationJoinsAll is a label change that concerns all objects, which
// then contest every identity there.
func BenchmarkLocationJoinsAll(b *testing.B) {
	t := benchTable(b)
	rev := int64(1)
	for b.Loop() {
		rev++
		labels := map[string]string{"site": "1"}
		if rev%2 == 0 {
			labels["everywhere"] = "true"
		}
		apply(b, t, rev, locationAt("l1"), &thing{labels: labels})
	}
}

// BenchmarkCustomizerEdit is an edit of one of 20 Customizers that are about all
// 50,000 objects of a space at one location.
func BenchmarkCustomizerEdit(b *testing.B) {
	spec := func(i int, first string) v1alpha1.CustomizerSpec {
		c := v1alpha1.CustomizerSpec{
			Match:     []v1alpha1.ObjectTest{{Resources: []string{"deployments"}}},
			Locations: []v1alpha1.LocationSelector{{Names: []string{"l"}}},
		}
		for _, field := range []string{first, "b", "c", "d"} {
			c.Rules = append(c.Rules, v1alpha1.Rule{Path: fmt.Sprintf("$.data.%s%d", field, i), Release: true})
		}
		return c
	}
	w := world{}
	add := func(o key.Object, x *thing) {
		x.createRev, x.uid = 1, o.Path()
		w[o.Key()] = x
	}
	add(locationAt("l"), &thing{})
	add(placementAt("s", "p"), &thing{spec: v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"l"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"deployments"}}}},
	}})
	for i := range benchSpaces * benchObjects {
		add(objectAt("s", "apps", "deployments", "default", fmt.Sprintf("web-%d", i)), &thing{})
	}
	for i := range 20 {
		add(customizerAt("s", fmt.Sprint("c", i)), &thing{spec: spec(i, "a")})
	}
	t := table.New(table.Config{Deriver: New(), WindowSteps: 1000, WindowBytes: 64 << 20})
	t.Reset(1, w.updates(1))
	reader, err := t.Subscribe(1, nil, table.LocationTopic("l"))
	if err != nil {
		b.Fatal(err)
	}
	defer reader.Close()
	rev := int64(1)
	for b.Loop() {
		rev++
		apply(b, t, rev, customizerAt("s", "c7"), &thing{spec: spec(7, fmt.Sprint("a", rev))})
	}
}

// BenchmarkReset is the start of a hub.
func BenchmarkReset(b *testing.B) {
	for b.Loop() {
		benchTable(b)
	}
}
