package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// TestBadInput shows that what can't be taken is refused with the reason that
// Kubernetes gives, and that nothing else changes.
func TestBadInput(t *testing.T) {
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, spaceName)
	env.Orrery(t, hub.Kubeconfig, "location", "add", "north")
	w := shopAt(t, hub)
	client, err := rest.HTTPClientFor(hub.PathConfig(""))
	if err != nil {
		t.Fatal(err)
	}
	const (
		shop       = "/spaces/shop"
		root       = "/spaces/root/apis/orrery.dev/v1alpha1"
		configMaps = shop + "/api/v1/namespaces/default/configmaps"
		placements = shop + "/apis/orrery.dev/v1alpha1/placements"
	)
	configMap := func(name, annotations, data string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","annotations":{` + annotations + `}},"data":{"k":"` + data + `"}}`
	}
	placement := func(spec string) string {
		return `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":` + spec + `}`
	}
	named := func(kind, name string) string {
		return `{"apiVersion":"orrery.dev/v1alpha1","kind":"` + kind + `","metadata":{"name":"` + name + `"}}`
	}
	before, _ := w.quietRevision(stillness)
	for _, c := range []struct {
		name, path, body string
		code             int
		reason           metav1.StatusReason
		message          string
	}{
		{"not JSON", configMaps, `{"apiVersion":`, 400, metav1.StatusReasonBadRequest, ""},
		{"another kind", configMaps, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, "Secret"},
		{"a wrong type", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":1}}`, 400, metav1.StatusReasonBadRequest, ""},
		{"an unknown field, strict", configMaps + "?fieldValidation=Strict", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dta":{}}`, 400, metav1.StatusReasonBadRequest, "dta"},
		{"an unknown resource", shop + "/api/v1/gadgets", `{}`, 404, metav1.StatusReasonNotFound, ""},
		{"an unknown space", "/spaces/nowhere/api/v1/namespaces", `{}`, 404, metav1.StatusReasonNotFound, "nowhere"},
		{"an unknown namespace", shop + "/api/v1/namespaces/nowhere/configmaps", configMap("x", "", ""), 404, metav1.StatusReasonNotFound, "nowhere"},
		{"an object's name", configMaps, configMap("Not_A_Name", "", ""), 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"no name", configMaps, configMap("", "", ""), 422, metav1.StatusReasonInvalid, "name or generateName"},
		{"a name with a slash", configMaps, configMap("a/b", "", ""), 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"a space's name with two dashes", root + "/spaces", named("Space", "a--b"), 422, metav1.StatusReasonInvalid, "--"},
		{"a space's name that is too long", root + "/spaces", named("Space", strings.Repeat("a", 41)), 422, metav1.StatusReasonInvalid, "40"},
		{"a second root", root + "/spaces", named("Space", "root"), 422, metav1.StatusReasonInvalid, "root"},
		{"a location's name", root + "/locations", named("Location", "North"), 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"a location outside of root", shop + "/apis/orrery.dev/v1alpha1/locations", named("Location", "x"), 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"an empty test", placements, placement(`{"locations":[{"names":["north"]}],"downsync":[{}]}`), 422, metav1.StatusReasonInvalid, "at least one of"},
		{"a test of a policy only", placements, placement(`{"downsync":[{"returnStatus":"Singleton"}]}`), 422, metav1.StatusReasonInvalid, "at least one of"},
		{"an empty location entry", placements, placement(`{"locations":[{}]}`), 422, metav1.StatusReasonInvalid, "selector"},
		{"an unknown policy", placements, placement(`{"downsync":[{"names":["x"],"returnStatus":"Always"}]}`), 422, metav1.StatusReasonInvalid, "returnStatus"},
		{"a bad selector operator", placements, placement(`{"locations":[{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}]}`), 422, metav1.StatusReasonInvalid, "operator"},
		{"an annotation that is no list", configMaps, configMap("x", `"orrery.dev/assigned-locations":"north"`, ""), 422, metav1.StatusReasonInvalid, "orrery.dev/assigned-locations"},
		{"an annotation with a bad name", configMaps, configMap("x", `"orrery.dev/assigned-locations":"[\"No Th\"]"`, ""), 422, metav1.StatusReasonInvalid, "orrery.dev/assigned-locations"},
		{"an unknown return policy", configMaps, configMap("x", `"orrery.dev/return-status":"Always"`, ""), 422, metav1.StatusReasonInvalid, "orrery.dev/return-status"},
		{"a CRD of Orrery's group", shop + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.NewReplacer("example.org", "orrery.dev").Replace(crdJSON), 422, metav1.StatusReasonInvalid, "orrery.dev"},
		{"an object over the limit", configMaps, configMap("x", "", strings.Repeat("x", 1472<<10)), 413, metav1.StatusReasonRequestEntityTooLarge, ""},
		{"a body over the limit", configMaps, configMap("x", "", strings.Repeat("x", 4<<20)), 413, metav1.StatusReasonRequestEntityTooLarge, ""},
		{"a write through a view", "/views/locations/north/api/v1/namespaces/default/configmaps", configMap("x", "", ""), 404, metav1.StatusReasonNotFound, ""},
		{"a write to all spaces", "/spaces/*/api/v1/namespaces/default/configmaps", configMap("x", "", ""), 405, metav1.StatusReasonMethodNotAllowed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, status := post(t, client, hub.URL+c.path, c.body)
			if code != c.code || status.Reason != c.reason || !strings.Contains(status.Message, c.message) {
				t.Errorf("answered %d %s %q, want %d %s with %q in it", code, status.Reason, status.Message, c.code, c.reason, c.message)
			}
		})
	}
	if after := w.revision(); after != before {
		t.Errorf("the log went from revision %s to %s", before, after)
	}
}

const crdJSON = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

func post(t *testing.T, client *http.Client, url, body string) (int, metav1.Status) {
	t.Helper()
	resp, err := client.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatalf("%s: the answer is no Status: %v", resp.Status, err)
	}
	return resp.StatusCode, status
}

// TestOneLocationsTokenOpensNoOther shows that an agent reaches its own location only.
func TestOneLocationsTokenOpensNoOther(t *testing.T) {
	hub := env.StartHub(t)
	w := shopAt(t, hub)
	for _, name := range []string{"north", "south"} {
		env.Orrery(t, w.Root, "location", "add", name)
	}
	config := rest.AnonymousClientConfig(hub.PathConfig(""))
	config.BearerToken = w.bearer("north")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/views/locations/north/apis":                     200,
		"/views/locations/south/apis":                     403,
		"/agent/v1/locations/south/desired":               403,
		"/spaces/root/apis/orrery.dev/v1alpha1/locations": 403,
		"/spaces/root/api/v1/namespaces/default/secrets":  403,
		"/metrics": 403,
	} {
		resp, err := client.Get(hub.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s with the token of north: %s, want %d", path, resp.Status, want)
		}
	}
	config.BearerToken = "north.guess"
	client, err = rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	code, status := post(t, client, hub.URL+"/agent/v1/locations/north/reports", "")
	if code != 401 || status.Reason != metav1.StatusReasonUnauthorized {
		t.Errorf("a guessed token: %d %s", code, status.Reason)
	}
}
