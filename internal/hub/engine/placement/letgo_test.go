package placement

import (
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestWhatFollowsGoesWithItsNamespace: the objects of a namespace are deleted in an order, so a
// following object may leave its locations before it is deleted itself. The cause is then the user
// that deleted the namespace; without that, it is policy.
func TestWhatFollowsGoesWithItsNamespace(t *testing.T) {
	for name, c := range map[string]struct{ deleting, named bool }{"the namespace is deleted": {true, true}, "the Deployment is": {false, false}} {
		t.Run(name, func(t *testing.T) {
			deployment, followed := objectAt("s", "apps", "deployments", "n", "x"), objectAt("s", "", "configmaps", "n", "x")
			web := &thing{}
			web.withReferences(deployment, []key.Identity{followed.Identity})
			_, tbl := newTable()
			rev := int64(0)
			write := func(o key.Object, x *thing) {
				t.Helper()
				rev++
				u := table.Update{Key: o.Key(), CreateRev: 1, ModRev: rev}
				if x != nil {
					x.uid = o.Path()
					u.Value = x.value()
				}
				if err := tbl.Apply(rev, []table.Update{u}); err != nil {
					t.Fatal(err)
				}
			}
			write(locationAt("a"), &thing{})
			write(placementAt("s", "p"), &thing{
				spec: v1alpha1.PlacementSpec{
					Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
					Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{APIGroup: new("apps"), Resources: []string{"deployments"}}, FollowReferences: true}},
				},
				status: v1alpha1.PlacementStatus{Follows: []v1alpha1.Follows{{Entry: 0, Resources: []string{"configmaps"}}}},
			})
			write(followed, &thing{})
			write(deployment, web)
			write(key.Object{Space: "s", Identity: key.Identity{Resource: key.Namespaces, Name: "n"}}, &thing{deleting: c.deleting})
			write(deployment, nil)
			change := lastChangeAt(t, tbl, "a", followed)
			if placement, named := LetGo(change, "a"); placement != "p" || named != c.named {
				t.Errorf("it is let go by %q, by name: %v", placement, named)
			}
		})
	}
}

// lastChangeAt is what the last revision did to an object that was at a location.
func lastChangeAt(t *testing.T, tbl *table.Writer, l key.Location, o key.Object) (last table.Change) {
	t.Helper()
	sub, err := tbl.Subscribe(tbl.Rev()-1, nil, table.LocationTopic(l))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	steps, _, err := sub.Poll()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		for _, ch := range step.Changes {
			if ch.Row().Key == o.Key() {
				return ch
			}
		}
	}
	t.Fatalf("nothing happened to %s", o.Path())
	return last
}
