package clients

import (
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"orrery.dev/orrery/test/support/env"
)

// attempt is a request about an object, or about all of its kind.
type attempt struct {
	method string
	about  string // what follows the path of the resource in a namespace
	header string // the type of its content; empty: JSON
	of     string // the resource that has it; empty: all
}

// attempts are one of each verb.
func attempts(name string) []attempt {
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
	return []attempt{
		{method: http.MethodGet}, {method: http.MethodGet, about: "?watch=1&timeoutSeconds=1"}, {method: http.MethodPost}, {method: http.MethodDelete},
		{method: http.MethodGet, about: "/" + name}, {method: http.MethodPut, about: "/" + name}, {method: http.MethodDelete, about: "/" + name},
		{method: http.MethodPatch, about: "/" + name, header: merge},
		{method: http.MethodPatch, about: "/" + name + "?fieldManager=x&force=true", header: apply},
		{method: http.MethodGet, about: "/" + name + "/status", of: "kubernetesclusters"}, {method: http.MethodPut, about: "/" + name + "/status", of: "kubernetesclusters"},
		{method: http.MethodPatch, about: "/" + name + "/status", header: merge, of: "kubernetesclusters"},
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

// foreign: provider a, with a credential for the platform's space or with one for all that it
// may, reaches nothing but its own slice, by no verb; and by way of its slice nothing of b's.
func (m *market) foreign(t *testing.T) {
	m.mint(t, "a-anywhere", "platform", "--user", "provider-a")
	limited, err := os.ReadFile(m.files["a-anywhere"])
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(env.Orrery(t, m.hub.Kubeconfig, "token", "create", "--user", "provider-a"))
	everywhere := regexp.MustCompile(`token: .*`).ReplaceAll(limited, []byte("token: "+token))
	if err := os.WriteFile(m.files["a-anywhere"], everywhere, 0o600); err != nil {
		t.Fatal(err)
	}
	before := m.all(t)
	for _, who := range []string{"provider-a", "a-anywhere"} {
		for root, namespace := range map[string]string{
			slicePath("b"): "bank--default", slicePath(""): "bank--default", "/views/exports/platform/clusters/spaces/*": "bank--default",
			"/views/slices/platform/classes/values/b/spaces/bank": "default", "/views/slices/platform/classes/rest/spaces/bank": "default",
			"/views/exports/platform/clusters/spaces/bank": "default", "/views/slices/platform/none/values/a/spaces/bank": "default",
			"/spaces/bank": "default", "/spaces/platform": "default", "/spaces/root": "default", "/spaces/*": "default",
		} {
			for _, o := range targets() {
				for _, a := range attempts(o.name) {
					if a.of == o.resource || a.of == "" {
						m.answered(t, who, root, namespace, o, a, http.StatusForbidden)
					}
				}
			}
			// Who has any right in a space finds out what it serves.
			if code := m.sends(t, who, http.MethodGet, root+"/apis", ""); code != http.StatusForbidden && root != "/spaces/platform" {
				t.Errorf("%s discovers %s: %d", who, root, code)
			}
		}
		for root, namespace := range map[string]string{slicePath("a"): "bank--default", "/views/slices/platform/classes/values/a/spaces/bank": "default"} {
			for _, o := range targets() {
				for _, a := range attempts(o.name) {
					if a.of == o.resource || a.of == "" {
						m.answered(t, who, root, namespace, o, a, a.inOwnSlice(o))
					}
				}
			}
			mine := target{"/apis/clusters.example.org/v1", "kubernetesclusters", "main", `{"apiVersion":"clusters.example.org/v1","kind":"KubernetesCluster","metadata":{"name":"main"},"spec":{}}`}
			m.answered(t, who, root, namespace, mine, attempt{method: http.MethodPost}, http.StatusForbidden)
		}
	}
	if after := m.all(t); !reflect.DeepEqual(before, after) {
		t.Errorf("there was\n%v\nand now\n%v", before, after)
	}
}

// inOwnSlice is how what is said of b's objects is answered in a's slice: they are not there,
// nothing becomes part of it that is of another, and its names are not to be had.
func (a attempt) inOwnSlice(o target) int {
	switch {
	case a.method == http.MethodGet && (a.about == "" || strings.HasPrefix(a.about, "?")):
		return http.StatusOK // with nothing of b's, as the watches and lists of others show
	case a.method == http.MethodPost:
		return http.StatusUnprocessableEntity
	case a.about == "" || strings.Contains(a.about, "force"):
		return http.StatusForbidden
	case a.method == http.MethodPatch && o.resource == secretResources.Resource: // which is not claimed
		return http.StatusForbidden
	}
	return http.StatusNotFound
}

func (m *market) answered(t *testing.T, who, root, namespace string, o target, a attempt, want int) {
	t.Helper()
	path, header := root+o.prefix+"/namespaces/"+namespace+"/"+o.resource+a.about, []string(nil)
	if a.header != "" {
		header = []string{"Content-Type", a.header}
	}
	body := o.body
	if a.method == http.MethodGet || a.method == http.MethodDelete {
		body = ""
	}
	if code := m.sends(t, who, a.method, path, body, header...); code != want {
		t.Errorf("%s: %s %s %v: %d, want %d", who, a.method, path, header, code, want)
	}
}

// all is all that consumers have of what is bound and claimed.
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
