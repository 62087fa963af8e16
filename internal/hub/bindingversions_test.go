package hub_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// definedAs changes the CRD of clusters of space p.
func (r *running) definedAs(change func(spec map[string]any)) {
	r.t.Helper()
	definitions := r.space("p").Resource(crdsGVR)
	u, err := definitions.Get(r.t.Context(), "clusters.fleet.example.org", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	change(u.Object["spec"].(map[string]any))
	if _, err := definitions.Update(r.t.Context(), u, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// versions has space p define clusters in some versions, and waits until c has bound these. The
// last one is stored; one that begins with a dash is not served.
func (r *running) versions(names ...string) {
	r.t.Helper()
	r.definedAs(func(spec map[string]any) {
		first := spec["versions"].([]any)[0].(map[string]any)
		var all []any
		for i, name := range names {
			v := runtime.DeepCopyJSON(first)
			v["name"], v["served"], v["storage"] = strings.TrimPrefix(name, "-"), !strings.HasPrefix(name, "-"), i == len(names)-1
			all = append(all, v)
		}
		spec["versions"] = all
	})
	served := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "-") })
	r.eventually(func() string {
		b := r.bound("c", v1alpha1.ReasonServed)
		if bound := b.Status.Resources[0]; !slices.Equal(bound.Versions, served) || bound.StorageVersion != names[len(names)-1] {
			return fmt.Sprintf("bound: %+v", bound)
		}
		return ""
	})
}

func clustersIn(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "fleet.example.org", Version: version, Resource: "clusters"}
}

// TestBoundVersions: the consumer and its provider can read and write the objects of a version, through
// the whole export view and through a slice, even if other versions are served and stored later. Watches
// of a version that is no longer served end.
func TestBoundVersions(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.create("p", exportViewsGVR, fleetView("classes", "field", ".spec.class"))
	for _, name := range []string{"one", "two", "old", "older"} {
		r.create("c", clustersGVR, cluster(name, "gold"))
	}
	paths := func(version string) map[string]dynamic.ResourceInterface {
		in := clustersIn(version)
		return map[string]dynamic.ResourceInterface{
			"space": r.space("c").Resource(in).Namespace("default"),
			"all":   r.exportView(wholeExport(), key.AllSpaces).Resource(in).Namespace("c--default"),
			"slice": r.exportView(classSlice("gold"), "c").Resource(in).Namespace("default"),
		}
	}
	writes := func(version, name string) {
		t.Helper()
		for path, resource := range paths(version) {
			u, err := resource.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || u.GetAPIVersion() != "fleet.example.org/"+version {
				t.Errorf("%s %s by %s: %v, %v", version, name, path, u, err)
				continue
			}
			u.Object["spec"].(map[string]any)["size"] = version + path
			if _, err := resource.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
				t.Errorf("update %s %s by %s: %v", version, name, path, err)
			}
			if _, err := resource.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"`+version+path+`"}}`), metav1.PatchOptions{}, "status"); err != nil {
				t.Errorf("status of %s %s by %s: %v", version, name, path, err)
			}
			if list, err := resource.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 4 {
				t.Errorf("list %s by %s: %v, %v", version, path, list, err)
			}
		}
	}
	stored := func(name, version string) {
		t.Helper()
		if row := r.row("o/c/fleet.example.org/clusters/default/" + name); !strings.Contains(string(row.Value), `"apiVersion":"fleet.example.org/`+version+`"`) {
			t.Errorf("%s is stored as %s", name, row.Value)
		}
	}
	r.versions("v1", "v2")
	stored("one", "v1")
	writes("v1", "one")
	writes("v2", "two")
	stored("one", "v2")
	stored("old", "v1")

	var watches []watch.Interface
	for _, resource := range paths("v1") {
		w, err := resource.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	r.versions("-v1", "v2")
	for _, w := range watches {
		r.ends(w)
	}
	for path, resource := range paths("v1") {
		if _, err := resource.Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("v1 by %s: %v", path, err)
		}
	}
	writes("v2", "old")
	stored("old", "v2")
	stored("older", "v1")

	if _, err := r.space("p").Resource(crdsGVR).Patch(t.Context(), "clusters.fleet.example.org", types.MergePatchType, []byte(`{"status":{"storedVersions":["v2"]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	r.versions("v2")
	writes("v2", "older")
	stored("older", "v2")
}

// TestBoundShortNames: bound resources have the short names of the provider's CRD, except for names that
// another resource of the space has until it is deleted.
func TestBoundShortNames(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	other := clusterDefinition()
	other.SetName("others.fleet.example.org")
	other.Object["spec"].(map[string]any)["names"] = map[string]any{"plural": "others", "kind": "Other", "shortNames": []any{"fl"}}
	r.create("c", crdsGVR, other)
	c, err := discovery.NewDiscoveryClientForConfig(r.config(route.Space("c").String()))
	if err != nil {
		t.Fatal(err)
	}
	called := func(want map[string]string) {
		t.Helper()
		r.eventually(func() string {
			list, err := c.ServerResourcesForGroupVersion("fleet.example.org/v1")
			if err != nil {
				return err.Error()
			}
			got := map[string]string{}
			for _, resource := range list.APIResources {
				if !strings.Contains(resource.Name, "/") {
					got[resource.Name] = strings.Join(resource.ShortNames, " ")
				}
			}
			if !maps.Equal(got, want) {
				return fmt.Sprintf("want %v, got %v", want, got)
			}
			return ""
		})
		r.bound("c", v1alpha1.ReasonServed)
	}
	renames := func(short ...any) {
		t.Helper()
		r.definedAs(func(spec map[string]any) { spec["names"].(map[string]any)["shortNames"] = short })
	}
	called(map[string]string{"clusters": "cl", "others": "fl"})
	renames("ft")
	called(map[string]string{"clusters": "ft", "others": "fl"})
	renames("fl", "ft", "clu")
	called(map[string]string{"clusters": "ft clu", "others": "fl"})
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.remove("c", crdsGVR, "others.fleet.example.org")
	called(map[string]string{"clusters": "fl ft clu"})
}

// TestRedefinedScope: if the CRD of a bound namespaced resource is replaced by a cluster-scoped one, the
// objects can be read and deleted in their space as before. Writes by the provider fail with a reason.
func TestRedefinedScope(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.remove("p", crdsGVR, "clusters.fleet.example.org")
	scopeless := clusterDefinition()
	scopeless.Object["spec"].(map[string]any)["scope"] = "Cluster"
	r.create("p", crdsGVR, scopeless)
	r.bound("c", v1alpha1.ReasonIncompatible)
	r.readsOn(v1alpha1.ReasonIncompatible)
	all := route.ExportViewRoot(wholeExport(), key.AllSpaces).String() + "/apis/fleet.example.org/v1/clusters"
	for _, c := range [][2]string{
		{"POST " + all, `{"apiVersion":"fleet.example.org/v1","kind":"Cluster","metadata":{"name":"c--one"}}`},
		{"PATCH " + all + "/c--one", `{"spec":{"size":"big"}}`},
		{"DELETE " + all + "/c--one", ""},
		{"DELETE " + all, ""},
	} {
		// Clients would try again for a while.
		code, body := r.as("operator", "system:masters").send(c[0], c[1], "Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[strings.HasPrefix(c[0], "PATCH")])
		if code != 503 || !strings.Contains(body, "another kind or scope") {
			t.Errorf("%s: %d %s", c[0], code, body)
		}
	}
	r.row("o/c/fleet.example.org/clusters/default/one")
	r.remove("p", crdsGVR, "clusters.fleet.example.org")
	r.create("p", crdsGVR, clusterDefinition())
	r.bound("c", v1alpha1.ReasonServed)
	if _, err := r.exportView(wholeExport(), key.AllSpaces).Resource(clustersGVR).Namespace("c--default").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"size":"big"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("as it was: %v", err)
	}
}
