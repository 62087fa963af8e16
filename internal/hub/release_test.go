package hub_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/seeds"
)

// TestPartOfRelease shows that a Placement says of which Helm release it matches some
// objects and not all, writes that once, and takes it back.
func TestPartOfRelease(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	for name, labels := range seeds.Ordered(map[string]map[string]string{"two": {"what": "app"}, "three": {"what": "other"}}) {
		r.addConfigMap(name, labels, "-")
		if _, err := configMaps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"},
			"annotations":{"meta.helm.sh/release-name":"web","meta.helm.sh/release-namespace":"default"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const want = "matches 1 of the 2 objects of Helm release default/web, not core/configmaps/default/three"
	eventuallyReports := func(want string) {
		t.Helper()
		r.eventually(func() string {
			p := r.placement()
			message := ""
			if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWholeReleases); c != nil {
				message = c.Message
			}
			if message != want {
				return "it says " + text(p.Status.Conditions)
			}
			return ""
		})
	}
	eventuallyReports(want)
	var status queries.SpaceStatus
	if r.question(&status, route.Status); len(status.Placements) != 1 || strings.Join(status.Placements[0].PartOf, "") != want {
		t.Errorf("asked, it says %+v", status.Placements)
	}
	r.idle()
	before := r.placement().ResourceVersion
	r.addConfigMap("four", nil, "-")
	if _, err := configMaps.Patch(t.Context(), "two", types.MergePatchType, []byte(`{"data":{"k":"2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.throughout(5*batchDelay, func() string {
		if now := r.placement().ResourceVersion; now != before {
			return "the Placement is written again"
		}
		return ""
	})
	if _, err := configMaps.Patch(t.Context(), "three", types.MergePatchType, []byte(`{"metadata":{"labels":{"what":"app"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyReports("")
	if releases := r.Releases.PartialReleases(key.Placement{Space: "s", Name: "p"}, "s"); len(releases) != 0 {
		t.Errorf("still %v", releases)
	}
}
