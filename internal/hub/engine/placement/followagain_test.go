package placement

import (
	"maps"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestWhatFollowsIsEvaluatedAgain: the Membership of a following object equals that of a full
// recomputation, also after a change that does not affect the followed object, and if the object is
// outside of the key ranges of the Placement.
func TestWhatFollowsIsEvaluatedAgain(t *testing.T) {
	deployment, followed := objectAt("s", "apps", "deployments", "n", "x"), objectAt("s", "", "secrets", "n", "x")
	p, location := placementAt("s", "p"), locationAt("a")
	spec := v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{APIGroup: new("apps"), Resources: []string{"deployments"}}, FollowReferences: true}},
	}
	waits := spec
	waits.WaitForRemoval = true
	status := v1alpha1.PlacementStatus{Follows: []v1alpha1.Follows{{Entry: 0, Resources: []string{"secrets"}}}}
	apps := v1alpha1.Admit{Kinds: []v1alpha1.KindTest{{APIGroup: new("apps")}}}
	secrets := v1alpha1.Admit{Kinds: []v1alpha1.KindTest{{Resources: []string{"secrets"}}}}
	impersonated := secrets
	impersonated.Impersonate = &v1alpha1.Impersonate{ServiceAccount: "ns/a"}

	first := &thing{}
	first.withReferences(deployment, []key.Identity{followed.Identity})
	w := world{}
	_, tbl := newTable()
	for rev, step := range []struct {
		what   string
		object key.Object
		*thing
	}{
		{"a location", location, &thing{}},
		{"a Placement", p, &thing{spec: spec, status: status}},
		{"what is followed", deployment, first},
		{"what follows", followed, &thing{}},
		{"its deletion waits", p, &thing{spec: waits, status: status}},
		{"it does not wait", p, &thing{spec: spec, status: status}},
		{"it is not admitted any more", location, &thing{spec: v1alpha1.LocationSpec{Admit: []v1alpha1.Admit{apps}}}},
		{"it is admitted", location, &thing{spec: v1alpha1.LocationSpec{Admit: []v1alpha1.Admit{apps, secrets}}}},
		{"an account acts for it", location, &thing{spec: v1alpha1.LocationSpec{Admit: []v1alpha1.Admit{apps, impersonated}}}},
	} {
		step.uid, step.createRev = step.object.Path(), 1
		w[step.object.Key()] = step.thing
		rev := int64(rev + 1)
		if err := tbl.Apply(rev, []table.Update{{Key: step.object.Key(), Value: step.value(), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
		_, fresh := newTable()
		fresh.Reset(rev, w.updates(rev))
		if got, want := membershipsOf(tbl), membershipsOf(fresh); !maps.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", step.what, got[followed.Key()], want[followed.Key()])
		}
	}
}
