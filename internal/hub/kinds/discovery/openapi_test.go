package discovery

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestClientsReadOpenAPI reads the document of every version as kubectl does.
func TestClientsReadOpenAPI(t *testing.T) {
	c := withWidgets(t)
	root := openapi3.NewRoot(newDiscovery(t, c).OpenAPIV3())
	for _, v := range (answers{Catalog: c}).versions() {
		document, err := root.GVSpec(v.gv)
		if err != nil {
			t.Fatalf("%s: %v", v.gv, err)
		}
		checkReferences(t, v.gv, document)
	}
	for path, want := range map[string][]string{
		"/apis/apps/v1/namespaces/{namespace}/deployments/{name}":    {"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"},
		"/apis/example.com/v1/namespaces/{namespace}/widgets/{name}": {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"},
		"/apis/orrery.dev/v1alpha1/placements/{name}":                {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"},
		"/apis/example.com/v1/gears/{name}":                          {"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"},
	} {
		s := strings.Split(path, "/")
		document, err := root.GVSpec(schema.GroupVersion{Group: s[2], Version: s[3]})
		if err != nil {
			t.Fatal(err)
		}
		item := document.Paths.Paths[path]
		if item == nil || item.Patch == nil {
			t.Fatalf("%s: no PATCH", path)
		}
		for _, mediaType := range want {
			if _, ok := item.Patch.RequestBody.Content[mediaType]; !ok {
				t.Errorf("%s: no %s", path, mediaType)
			}
		}
		if !slices.ContainsFunc(item.Patch.Parameters, func(p *spec3.Parameter) bool { return p.Name == "fieldValidation" || p.Ref.String() != "" }) {
			t.Errorf("%s: no fieldValidation", path)
		}
	}
	document, err := root.GVSpec(schema.GroupVersion{Group: "orrery.dev", Version: "v1alpha1"})
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths.Paths {
		if strings.Contains(path, "/spaces") {
			t.Errorf("%s is described, and not served", path)
		}
		if strings.Contains(path, "/locations") && (item.Get == nil || item.Put != nil || item.Patch != nil || item.Post != nil || item.Delete != nil) {
			t.Errorf("%s: more than can be done: %+v", path, item)
		}
	}
}

// TestOpenAPIOfAView shows that the documents of a view describe what it has, and that it
// can only be read.
func TestOpenAPIOfAView(t *testing.T) {
	k, ok := newTestRegistry(t).Builtin(key.Root).Lookup(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	if !ok {
		t.Fatal("no deployments")
	}
	c := kinds.NewCatalog([]*kinds.Kind{k}, func(*kinds.Kind) kinds.Access { return kinds.ReadOnly })
	document, err := openapi3.NewRoot(newDiscovery(t, c).OpenAPIV3()).GVSpec(k.GVK.GroupVersion())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := document.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]; !ok {
		t.Error("scale is not described")
	}
	for path, item := range document.Paths.Paths {
		if path != "/apis/apps/v1/" && !strings.Contains(path, "/deployments") {
			t.Errorf("%s is described", path)
		}
		if item.Get == nil || item.Put != nil || item.Post != nil || item.Patch != nil || item.Delete != nil {
			t.Errorf("%s: more than can be done: %+v", path, item)
		}
	}
	checkReferences(t, k.GVK.GroupVersion(), document)
}

// checkReferences looks for references that lead nowhere.
func checkReferences(t *testing.T, gv schema.GroupVersion, document *spec3.OpenAPI) {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	const ref = `"$ref":"#/components/schemas/`
	for rest := data; ; {
		i := bytes.Index(rest, []byte(ref))
		if i < 0 {
			return
		}
		rest = rest[i+len(ref):]
		name, _, _ := bytes.Cut(rest, []byte(`"`))
		if _, ok := document.Components.Schemas[string(name)]; !ok {
			t.Errorf("%s: no schema %q", gv, name)
		}
	}
}

func TestExplain(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	a := catalogWith(t, kinds.ReadWrite, readCRD(t, "widgets"))
	b := catalogWith(t, kinds.ReadWrite, readCRD(t, "widgets-other"))
	for _, test := range []struct {
		catalog *kinds.Catalog
		gvr     schema.GroupVersionResource
		path    []string
		want    string
	}{
		{a, widgets, []string{"spec", "size"}, "How large it is."},
		{b, widgets, []string{"spec", "size"}, "Its size in words."},
		{a, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, []string{"spec", "replicas"}, "Number of desired pods"},
		{a, schema.GroupVersionResource{Group: "orrery.dev", Version: "v1alpha1", Resource: "placements"}, []string{"spec", "downsync", "resources"}, "lower-case plural names"},
	} {
		document, err := openapi3.NewRoot(newDiscovery(t, test.catalog).OpenAPIV3()).GVSpec(test.gvr.GroupVersion())
		if err != nil {
			t.Fatal(err)
		}
		k, _ := test.catalog.Lookup(test.gvr)
		if got := describe(t, document, k.GVK, test.path); !strings.Contains(got, test.want) {
			t.Errorf("%s %v: got %q", test.gvr, test.path, got)
		}
	}
}

// describe returns the description of a field, which it finds from the schema of its kind.
func describe(t *testing.T, document *spec3.OpenAPI, gvk schema.GroupVersionKind, path []string) string {
	t.Helper()
	var current *spec.Schema
	for _, s := range document.Components.Schemas {
		if isOf(s, gvk) {
			current = s
		}
	}
	if current == nil {
		t.Fatalf("no schema of %s", gvk)
	}
	resolve := func(s *spec.Schema) *spec.Schema {
		for {
			if len(s.AllOf) == 1 {
				s = &s.AllOf[0]
			}
			if s.Items != nil && s.Items.Schema != nil {
				s = s.Items.Schema
				continue
			}
			name, ok := strings.CutPrefix(s.Ref.String(), "#/components/schemas/")
			if !ok {
				return s
			}
			s = document.Components.Schemas[name]
		}
	}
	var description string
	for _, name := range path {
		next, ok := resolve(current).Properties[name]
		if !ok {
			t.Fatalf("%s has no field %q of %v", gvk, name, path)
		}
		description = next.Description
		current = &next
	}
	return description
}

// isOf reports whether a schema describes one kind alone.
func isOf(s *spec.Schema, gvk schema.GroupVersionKind) bool {
	data, err := json.Marshal(s.Extensions["x-kubernetes-group-version-kind"])
	var served []schema.GroupVersionKind
	return err == nil && json.Unmarshal(data, &served) == nil && len(served) == 1 && served[0] == gvk
}

func TestOpenAPIV2(t *testing.T) {
	for name, c := range map[string]*kinds.Catalog{"plain": newTestRegistry(t).Builtin(key.Root), "customs": withWidgets(t)} {
		document, err := newDiscovery(t, c).OpenAPISchema()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, d := range document.Definitions.AdditionalProperties {
			found[d.Name]++
		}
		for _, k := range c.Kinds() {
			if k.Custom == nil {
				continue
			}
			labels := strings.Split(k.GVK.Group, ".")
			slices.Reverse(labels)
			if n := found[strings.Join(labels, ".")+"."+k.GVK.Version+"."+k.GVK.Kind]; n != 1 {
				t.Errorf("%s: %s is defined %d times", name, k.GVK, n)
			}
		}
		for definition, n := range found {
			if n != 1 {
				t.Errorf("%s: %s is defined %d times", name, definition, n)
			}
		}
		if found["io.k8s.api.apps.v1.Deployment"] != 1 || document.Info.Title != "Kubernetes" || document.Swagger != "2.0" {
			t.Errorf("%s: got %v, %q", name, document.Info, document.Swagger)
		}

		var plain struct {
			Swagger            string
			Paths, Definitions map[string]json.RawMessage
		}
		if err := json.Unmarshal(fetch(t, serve(t, c).URL+testPrefix+"/openapi/v2", "application/json"), &plain); err != nil {
			t.Fatal(err)
		}
		if len(plain.Definitions) != len(found) || plain.Swagger != "2.0" {
			t.Errorf("%s: %d definitions in JSON, %d in protobuf", name, len(plain.Definitions), len(found))
		}
		if _, ok := plain.Paths["/apis/orrery.dev/v1alpha1/placements"]; !ok {
			t.Errorf("%s: placements have no path", name)
		}
	}
}

func TestOpenAPIIsCacheable(t *testing.T) {
	index := func(c *kinds.Catalog) map[string]string {
		found, err := answers{Catalog: c}.openAPIIndex()
		if err != nil {
			t.Fatal(err)
		}
		links := map[string]string{}
		for root, d := range found.Paths {
			links[root] = d.ServerRelativeURL
		}
		return links
	}
	before := index(catalogWith(t, kinds.ReadWrite, readCRD(t, "widgets")))
	crd := readCRD(t, "widgets")
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "New."
	now := catalogWith(t, kinds.ReadWrite, crd)
	after := index(now)
	for root, link := range before {
		if changed := after[root] != link; changed != strings.HasPrefix(root, "apis/example.com/") {
			t.Errorf("%s: link changed: %v", root, changed)
		}
		if !strings.HasPrefix(link, "/openapi/v3/"+root+"?hash=") {
			t.Errorf("got %s", link)
		}
	}
	server := serve(t, now)
	// An old link leads on to the new document.
	if got := fetch(t, server.URL+testPrefix+before["apis/example.com/v1"], "application/json"); !bytes.Contains(got, []byte("New.")) {
		t.Errorf("got %.200s", got)
	}
	plain := fetch(t, server.URL+testPrefix+after["apis/apps/v1"], "application/json")
	packed := fetch(t, server.URL+testPrefix+after["apis/apps/v1"], "application/json", "gzip")
	if unpacked, err := openapi.Unpack(packed); err != nil || !bytes.Equal(unpacked, plain) {
		t.Errorf("not the same gzipped: %v", err)
	}
	if got := fetch(t, server.URL+testPrefix+after["apis/example.com/v1"], "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); len(got) == 0 || got[0] == '{' {
		t.Errorf("got %.20q", got)
	}
}

func fetch(t *testing.T, url, accept string, encoding ...string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", strings.Join(append(encoding, "identity"), ","))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, res.Status, data)
	}
	return data
}
