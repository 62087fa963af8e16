package hub_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/route"
)

// TestUnconvertedVersions: a CRD has two versions with different fields and a conversion webhook, which
// the hub does not call. A write in the version that is not stored is refused if it would lose a field,
// of this version or of the stored one. The same write is accepted if nothing is lost.
func TestUnconvertedVersions(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	text := map[string]any{"type": "string"}
	fields := func(spec map[string]any, version string) {
		spec["name"] = version
		defaulted := map[string]any{"type": "string", "default": version}
		properties := map[string]any{"class": text, "only" + version: text, "default" + version: defaulted}
		spec["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
			"spec": map[string]any{"type": "object", "properties": properties},
		}}}
	}
	conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": "https://webhook.example/convert"},
	}}
	r.definedAs(func(spec map[string]any) {
		first := spec["versions"].([]any)[0].(map[string]any)
		old, stored := runtime.DeepCopyJSON(first), runtime.DeepCopyJSON(first)
		fields(old, "v1alpha1")
		fields(stored, "v1")
		old["storage"], stored["storage"] = false, true
		spec["versions"], spec["conversion"] = []any{stored, old}, conversion
	})
	r.eventually(func() string {
		definitions := r.space("p").Resource(schema.GroupVersionResource{Group: "fleet.example.org", Version: "v1alpha1", Resource: "clusters"})
		if _, err := definitions.List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	mediaTypes := map[string]string{"POST": "application/json", "PATCH": mergePatch}
	admin := r.as("admin", "system:masters")
	path := func(version, name string) string {
		return strings.TrimSuffix(route.Space("p").Path("apis/fleet.example.org/"+version+"/namespaces/default/clusters/"+name), "/")
	}
	object := func(version, name, spec string) string {
		return `{"apiVersion":"fleet.example.org/` + version + `","kind":"Cluster","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
	}
	lost := func(method, version, name, spec, field string) {
		t.Helper()
		target := path(version, "")
		if method != "POST" {
			target = path(version, name)
		}
		code, body := admin.send(method+" "+target, object(version, name, spec), contentType, mediaTypes[method])
		if code != http.StatusUnprocessableEntity || !strings.Contains(body, field) || !strings.Contains(body, "write it in version v1") {
			t.Errorf("%s of %s in %s is answered with %d %s, want a refusal that names %s", method, spec, version, code, body, field)
		}
	}
	taken := func(method, version, name, spec string) {
		t.Helper()
		target := path(version, "")
		if method != "POST" {
			target = path(version, name)
		}
		if code, body := admin.send(method+" "+target, object(version, name, spec), contentType, mediaTypes[method]); code >= 300 {
			t.Errorf("%s of %s in %s is answered with %d %s", method, spec, version, code, body)
		}
	}
	lost("POST", "v1alpha1", "a", `"onlyv1alpha1":"x"`, "spec.onlyv1alpha1")
	taken("POST", "v1alpha1", "a", `"class":"x"`)
	taken("PATCH", "v1alpha1", "a", `"class":"y"`)
	taken("PATCH", "v1", "a", `"onlyv1":"x"`)
	lost("PATCH", "v1alpha1", "a", `"class":"z"`, "spec.onlyv1")
	if _, body := admin.send("GET "+path("v1", "a"), ""); !strings.Contains(body, `"onlyv1":"x"`) || !strings.Contains(body, `"class":"y"`) {
		t.Errorf("the object is %s", body)
	}
	// A client of the other version can remove its finalizer, though the stored version has more fields.
	finalizers := func(list string) string { return `{"metadata":{"finalizers":` + list + `}}` }
	if code, body := admin.send("PATCH "+path("v1", "a"), finalizers(`["example.org/f"]`), contentType, mergePatch); code != http.StatusOK {
		t.Errorf("a finalizer is answered with %d %s", code, body)
	}
	if code, body := admin.send("DELETE "+path("v1alpha1", "a"), ""); code != http.StatusOK {
		t.Errorf("its deletion is answered with %d %s", code, body)
	}
	if code, body := admin.send("PATCH "+path("v1alpha1", "a"), finalizers(`[]`), contentType, mergePatch); code != http.StatusOK {
		t.Errorf("the removal of its finalizer is answered with %d %s", code, body)
	}
	if code, _ := admin.send("GET "+path("v1", "a"), ""); code != http.StatusNotFound {
		t.Errorf("a read of the deleted object is answered with %d", code)
	}
}
