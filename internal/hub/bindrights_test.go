package hub_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestBindingTakesRights: a user needs a right from the provider's space to bind its API, and rights in the
// own space to accept a claim for them. The error names the missing right.
func TestBindingTakesRights(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p")
	r.addSpace("c")
	r.claims("get")
	bindings := written{"APIBinding", "apibindings"}
	const writes = `{"apiGroups":["orrery.dev"],"resources":["apibindings"],"verbs":["get","create","update","patch"]}`
	const reads = `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch"]}`
	const spec = `{"export":{"space":"p","name":"fleet"}}`
	r.only("c", "jane", writes, reads)
	jane := r.as("jane")
	refused := func(how, spec, message string) {
		t.Helper()
		if code, body := bindings.write(jane, "c", how, "fleet", spec); code != http.StatusForbidden || !strings.Contains(body, message) {
			t.Errorf("%s of %s: %d %s, want %s", how, spec, code, body, message)
		}
	}
	export := func(resource, name, verb string) string {
		return `{"apiGroups":["orrery.dev"],"resources":["` + resource + `"],"resourceNames":["` + name + `"],"verbs":["` + verb + `"]}`
	}
	for _, rights := range [][]string{nil, {export("apiexports/content", "fleet", "*")}, {export("apiexports", "other", "bind"), export("apiexports", "fleet", "get")}} {
		r.only("p", "jane", append(rights, reads)...)
		for _, how := range making {
			refused(how, spec, `needs rights that they do not hold: bind apiexports.orrery.dev [\"fleet\"] in space \"p\"`)
		}
	}
	if _, err := r.space("c").Resource(bindingsGVR).Get(t.Context(), "fleet", metav1.GetOptions{}); err == nil {
		t.Fatal("a user without the right has bound it")
	}
	r.only("p", "jane", export("apiexports", "fleet", "bind"))
	if code, body := bindings.write(jane, "c", "create", "fleet", spec); code != http.StatusCreated {
		t.Fatalf("with the right: %d %s", code, body)
	}
	r.bound("c", v1alpha1.ReasonServed)

	const accepted = `{"export":{"space":"p","name":"fleet"},"claims":[{"group":"","resource":"configmaps","state":"Accepted"}]}`
	for _, how := range changing {
		refused(how, accepted, "needs rights that they do not hold")
		refused(how, accepted, "configmaps")
	}
	if b := r.bound("c", v1alpha1.ReasonServed); len(b.Status.Claims) > 0 {
		t.Errorf("a user without the rights has accepted it: %+v", b.Status)
	}
	r.revoke("p", "jane")
	for _, c := range []struct{ rights, spec string }{{reads, strings.Replace(accepted, "Accepted", "Rejected", 1)}, {strings.Replace(reads, `"get","list","watch"`, `"*"`, 1), accepted}} {
		r.only("c", "jane", writes, c.rights)
		if code, body := bindings.write(jane, "c", "merge", "fleet", c.spec); code != http.StatusOK {
			t.Errorf("%s with %s: %d %s", c.spec, c.rights, code, body)
		}
	}
	if b := r.bound("c", v1alpha1.ReasonServed); len(b.Status.Claims) != 1 {
		t.Errorf("what was accepted: %+v", b.Status)
	}
	r.create("c", clustersGVR, cluster("one", "gold"))
}
