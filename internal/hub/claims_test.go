package hub_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestExportViewsHideWhatIsAcceptedForOtherVerbs: what a space accepted for other verbs than are
// claimed now is not read by these.
func TestExportViewsHideWhatIsAcceptedForOtherVerbs(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.claims("create")
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	r.accepts("c")
	r.claims("get", "list", "watch")
	maps := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR)
	l, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) > 0 {
		t.Errorf("listed %v", l.Items)
	}
	if _, err := maps.Namespace("c--default").Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Error("got what is not accepted")
	}
}

// TestOneBindingOfAnExport: a space binds an export once. By two bindings what it let the
// provider do with some objects would be let with those of the other, too.
func TestOneBindingOfAnExport(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	claims := func(list string) { r.patchObject("p", exportsGVR, "fleet", `{"spec":{"claims":[`+list+`]}}`) }
	claims(`{"group":"","resource":"configmaps","verbs":["create"]}`)
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	r.accepts("c")
	claims(`{"group":"","resource":"configmaps","verbs":["get","list"],"selector":{"matchLabels":{"use":"e"}}}`)
	second := fleetBinding("p")
	second.SetName("second")
	second.Object["spec"].(map[string]any)["claims"] = []any{map[string]any{"group": "", "resource": "configmaps", "state": "Accepted"}}
	r.create("c", bindingsGVR, second)
	claims(`{"group":"","resource":"configmaps","verbs":["create","get","list"]}`)
	l, err := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) > 0 {
		t.Errorf("listed %v", l.Items)
	}
	eventuallyReports := func(name, want string) {
		t.Helper()
		r.eventually(func() string {
			b, err := r.space("c").Resource(bindingsGVR).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if got := jsonOf(t, b.Object["status"]); !strings.Contains(got, want) {
				return got
			}
			return ""
		})
	}
	eventuallyReports("second", `APIBinding \"fleet\" has bound`)
	r.bound("c", v1alpha1.ReasonServed)
	r.remove("c", bindingsGVR, "fleet")
	eventuallyReports("second", `"Served"`)
}
