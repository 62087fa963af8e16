package clients

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is a request about an object, or about all of its kind.
type attempt struct {
	method   string
	suffix   string // name, subresource and query, after the path of the resource in a namespace
	header   string // the Content-Type; empty means JSON
	resource string // the only resource to which it applies; empty means all
}

// attempts returns a request for each verb.
func attempts(name string) []attempt {
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
	return []attempt{
		{method: http.MethodGet}, {method: http.MethodGet, suffix: "?watch=1&timeoutSeconds=1"}, {method: http.MethodPost}, {method: http.MethodDelete},
		{method: http.MethodGet, suffix: "/" + name}, {method: http.MethodPut, suffix: "/" + name}, {method: http.MethodDelete, suffix: "/" + name},
		{method: http.MethodPatch, suffix: "/" + name, header: merge},
		{method: http.MethodPatch, suffix: "/" + name + "?fieldManager=x&force=true", header: apply},
		{method: http.MethodGet, suffix: "/" + name + "/status", resource: "kubernetesclusters"}, {method: http.MethodPut, suffix: "/" + name + "/status", resource: "kubernetesclusters"},
		{method: http.MethodPatch, suffix: "/" + name + "/status", header: merge, resource: "kubernetesclusters"},
	}
}

// target is an object of provider b in the space bank.
type target struct{ prefix, resource, name, body string }

func targets() []target {
	return []target{
		{"/apis/clusters.example.org/v1", "kubernetesclusters", "main",
			`{"apiVersion":"clusters.example.org/v1","kind":"KubernetesCluster","metadata":{"name":"main","labels":{"stolen":"yes"}},"spec":{"class":"b"},"status":{"provider":"a"}}`},
		{"/api/v1", "secrets", "main-kubeconfig",
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"main-kubeconfig","labels":{"app.kubernetes.io/managed-by":"clusters.example.org","stolen":"yes"}}}`},
	}
}

// foreign checks that provider a reaches no objects outside its own slice by any verb, neither
// with a credential for the space of the platform nor with one without a limit to a space. Through
// its own slice it reaches no object of provider b.
func (m *market) foreign(t *testing.T) {
	m.mintToken(t, "a-anywhere", "provider-a")
	before := m.all(t)
	for _, user := range []string{"provider-a", "a-anywhere"} {
		for root, namespace := range map[string]string{
			slicePath("b"): "bank--default", slicePath(""): "bank--default", "/views/exports/platform/clusters/spaces/*": "bank--default",
			"/views/slices/platform/classes/values/b/spaces/bank": "default", "/views/slices/platform/classes/rest/spaces/bank": "default",
			"/views/exports/platform/clusters/spaces/bank": "default", "/views/slices/platform/none/values/a/spaces/bank": "default",
			"/spaces/bank": "default", "/spaces/platform": "default", "/spaces/root": "default", "/spaces/*": "default",
		} {
			for _, o := range targets() {
				for _, a := range attempts(o.name) {
					if a.resource == o.resource || a.resource == "" {
						m.answered(t, user, root, namespace, o, a, http.StatusForbidden)
					}
				}
			}
			// A user with any right in a space may discover its APIs.
			if code := m.sends(t, user, http.MethodGet, root+"/apis", ""); code != http.StatusForbidden && root != "/spaces/platform" {
				t.Errorf("%s discovers %s: %d", user, root, code)
			}
		}
		for root, namespace := range map[string]string{slicePath("a"): "bank--default", "/views/slices/platform/classes/values/a/spaces/bank": "default"} {
			for _, o := range targets() {
				for _, a := range attempts(o.name) {
					if a.resource == o.resource || a.resource == "" {
						m.answered(t, user, root, namespace, o, a, a.inOwnSlice(o))
					}
				}
			}
			mine := target{"/apis/clusters.example.org/v1", "kubernetesclusters", "main", `{"apiVersion":"clusters.example.org/v1","kind":"KubernetesCluster","metadata":{"name":"main"},"spec":{}}`}
			m.answered(t, user, root, namespace, mine, attempt{method: http.MethodPost}, http.StatusForbidden)
		}
	}
	if after := m.all(t); !reflect.DeepEqual(before, after) {
		t.Errorf("objects before:\n%v\nand after:\n%v", before, after)
	}
}

// inOwnSlice returns the status code that a request for an object of b gets in the slice of a.
// Objects of b do not exist there, and a can neither move one into its slice nor use its name.
func (a attempt) inOwnSlice(o target) int {
	switch {
	case a.method == http.MethodGet && (a.suffix == "" || strings.HasPrefix(a.suffix, "?")):
		return http.StatusOK // the other subtests check that lists and watches contain no object of b
	case a.method == http.MethodPost:
		return http.StatusUnprocessableEntity
	case a.suffix == "" || strings.Contains(a.suffix, "force"):
		return http.StatusForbidden
	case a.method == http.MethodPatch && o.resource == secretResources.Resource: // a Secret that the claim does not select
		return http.StatusForbidden
	}
	return http.StatusNotFound
}

func (m *market) answered(t *testing.T, user, root, namespace string, o target, a attempt, want int) {
	t.Helper()
	path, header := root+o.prefix+"/namespaces/"+namespace+"/"+o.resource+a.suffix, []string(nil)
	if a.header != "" {
		header = []string{"Content-Type", a.header}
	}
	body := o.body
	if a.method == http.MethodGet || a.method == http.MethodDelete {
		body = ""
	}
	if code := m.sends(t, user, a.method, path, body, header...); code != want {
		t.Errorf("%s: %s %s %v: %d, want %d", user, a.method, path, header, code, want)
	}
}

// all returns the resource versions of all clusters and Secrets in the spaces of the consumers.
func (m *market) all(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, s := range []string{"shop", "bank", "labs"} {
		c := m.client(t, s)
		for _, kind := range []schema.GroupVersionKind{{Group: "clusters.example.org", Version: "v1", Kind: "KubernetesClusterList"}, {Version: "v1", Kind: "SecretList"}} {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(kind)
			if err := c.List(t.Context(), &list, client.InNamespace("default")); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				versions[s+"/"+o.GetKind()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return versions
}
