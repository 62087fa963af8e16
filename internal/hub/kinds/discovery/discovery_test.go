package discovery

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/custom"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/protocol/key"
)

const testPrefix = "/spaces/a"

// serve serves a catalog below testPrefix, as a hub does.
func serve(t *testing.T, c *kinds.Catalog) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(testPrefix, NewServer().Handler(c)))
	t.Cleanup(server.Close)
	return server
}

func newDiscovery(t *testing.T, c *kinds.Catalog) *discovery.DiscoveryClient {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: serve(t, c).URL + testPrefix, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var sharedRegistry = sync.OnceValues(registry.New)

func newTestRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := sharedRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readCRD(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "custom", "testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// catalogWith is the catalog of a space with CRDs.
func catalogWith(t *testing.T, access kinds.Access, crds ...*apiextensionsv1.CustomResourceDefinition) *kinds.Catalog {
	t.Helper()
	compiler, err := custom.NewCompiler(custom.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var defined []*kinds.Kind
	for _, crd := range crds {
		d, err := compiler.Compile(crd)
		if err != nil {
			t.Fatal(err)
		}
		defined = append(defined, d.Kinds()...)
	}
	return newTestRegistry(t).Builtin("a").With(defined, func(*kinds.Kind) kinds.Access { return access })
}

// withWidgets is the catalog of a space with two CRDs.
func withWidgets(t *testing.T) *kinds.Catalog {
	return catalogWith(t, kinds.ReadWrite, readCRD(t, "widgets"), readCRD(t, "gears"))
}

// TestClientsDiscoverWhatTheCatalogHas asks in both forms: all at once, and one
// version after the other.
func TestClientsDiscoverWhatTheCatalogHas(t *testing.T) {
	r := newTestRegistry(t)
	for name, c := range map[string]*kinds.Catalog{"plain": r.Builtin("a"), "root": r.Builtin(key.Root), "customs": withWidgets(t)} {
		for _, legacy := range []bool{false, true} {
			client := newDiscovery(t, c)
			client.UseLegacyDiscovery = legacy
			groups, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			form := name + ", aggregated"
			if legacy {
				form = name + ", plain"
			}
			checkGroups(t, form, groups)
			got := map[string]metav1.APIResource{}
			for _, l := range lists {
				for _, r := range l.APIResources {
					got[l.GroupVersion+" "+r.Name] = r
				}
			}
			count := 0
			for _, k := range c.Kinds() {
				gv := k.GVR.GroupVersion().String()
				r, ok := got[gv+" "+k.GVR.Resource]
				if !ok || r.Kind != k.GVK.Kind || r.Namespaced != k.Namespaced || r.SingularName != k.Singular ||
					!slices.Equal(r.ShortNames, k.ShortNames) || !slices.Equal(r.Categories, k.Categories) ||
					!slices.Equal(r.Verbs, answers{Catalog: c}.verbs(k)) {
					t.Errorf("%s: %s: got %+v", form, k.GVR, r)
				}
				count++
				if k.HasStatus {
					if r, ok := got[gv+" "+k.GVR.Resource+"/status"]; !ok || r.Kind != k.GVK.Kind || len(r.Verbs) == 0 {
						t.Errorf("%s: %s: got status %+v", form, k.GVR, r)
					}
					count++
				}
				if k.Scale != nil {
					if r, ok := got[gv+" "+k.GVR.Resource+"/scale"]; !ok || r.Kind != "Scale" || r.Group != "autoscaling" {
						t.Errorf("%s: %s: got scale %+v", form, k.GVR, r)
					}
					count++
				}
			}
			if r, ok := got["orrery.dev/v1alpha1 locations/token"]; ok != (name == "root") || ok && (r.Kind != "LocationToken" || !slices.Equal(r.Verbs, []string{"create", "delete"})) {
				t.Errorf("%s: got token %+v", form, r)
			} else if ok {
				count++
			}
			if len(got) != count {
				t.Errorf("%s: %d resources and subresources, want %d", form, len(got), count)
			}
		}
	}
}

// checkGroups checks the order, by which clients choose between groups and versions.
func checkGroups(t *testing.T, form string, groups []*metav1.APIGroup) {
	t.Helper()
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
		if g.Name == "autoscaling" && (g.PreferredVersion.Version != "v2" || len(g.Versions) != 2) {
			t.Errorf("%s: autoscaling: %+v", form, g)
		}
		if g.Name == "example.com" && g.PreferredVersion.Version != "v1" {
			t.Errorf("%s: example.com: %+v", form, g)
		}
	}
	if names[0] != "" || slices.Index(names, "apps") > slices.Index(names, "orrery.dev") ||
		slices.Contains(names, "example.com") && names[len(names)-1] != "example.com" {
		t.Errorf("%s: order %q", form, names)
	}
}

// TestDiscoveryOfNothing is what the client of a location sees that has nothing.
func TestDiscoveryOfNothing(t *testing.T) {
	deployments := newTestRegistry(t).Builtin(key.Root).Kinds()
	deployments = slices.DeleteFunc(slices.Clone(deployments), func(k *kinds.Kind) bool { return k.GVR.Resource != "deployments" })
	for _, c := range []*kinds.Catalog{kinds.NewCatalog(nil, nil), kinds.NewCatalog(deployments, nil)} {
		for _, legacy := range []bool{false, true} {
			client := newDiscovery(t, c)
			client.UseLegacyDiscovery = legacy
			_, lists, err := client.ServerGroupsAndResources()
			if err != nil || len(lists) != len(c.Kinds()) {
				t.Errorf("legacy %v: got %v, %v", legacy, lists, err)
			}
		}
		if _, err := newDiscovery(t, c).OpenAPIV3().Paths(); err != nil {
			t.Error(err)
		}
	}
}

func TestDiscoveryOfLimitedKinds(t *testing.T) {
	client := newDiscovery(t, catalogWith(t, kinds.Terminating, readCRD(t, "widgets")))
	for gv, want := range map[string]map[string]string{
		"orrery.dev/v1alpha1": {"locations": "get,list,watch", "locations/status": "get"},
		"example.com/v1":      {"widgets": "delete,deletecollection,get,list,watch"},
		"v1":                  {"namespaces": "create,delete,get,list,patch,update,watch"},
	} {
		list, err := client.ServerResourcesForGroupVersion(gv)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if verbs, ok := want[r.Name]; ok {
				if got := strings.Join(r.Verbs, ","); got != verbs {
					t.Errorf("%s %s: got %s, want %s", gv, r.Name, got, verbs)
				}
				delete(want, r.Name)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: not there: %v", gv, want)
		}
	}
}

func TestDiscoveryOverHTTP(t *testing.T) {
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	server := serve(t, withWidgets(t))
	get := func(method, path, accept, etag string) (int, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+testPrefix+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		req.Header.Set("If-None-Match", etag)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header
	}
	_, header := get(http.MethodGet, "/apis", aggregated+",application/json", "")
	if got := header.Get("Content-Type"); got != aggregated {
		t.Errorf("got %q", got)
	}
	etag := header.Get("ETag")
	if got, _ := get(http.MethodGet, "/apis", aggregated, etag); etag == "" || got != http.StatusNotModified {
		t.Errorf("etag %q is not good for a second question", etag)
	}
	for path, want := range map[string]int{
		"/api": 200, "/api/": 200, "/apis/": 200, "/api/v1": 200, "/apis/apps": 200, "/apis/apps/v1": 200, "/apis/example.com/v1beta1": 200,
		"/api/v2": 404, "/apis/nope": 404, "/apis/apps/v7": 404, "/apis/apps/v1/deployments": 404, "/openapi": 404, "/openapi/v3/apis/nope/v1": 404, "/": 404,
	} {
		if got, _ := get(http.MethodGet, path, "application/json", ""); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if got, _ := get(http.MethodPost, "/apis", "application/json", ""); got != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", got)
	}
}
