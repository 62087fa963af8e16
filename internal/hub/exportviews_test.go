package hub_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

func wholeExport() key.ExportView { return key.ExportView{Space: "p", Name: "fleet"} }

func classSlice(class string) key.ExportView {
	return key.ExportView{Space: "p", Name: "classes", View: true, Value: class}
}

// exportView returns a client of an export view for a space, or for all.
func (r *running) exportView(f key.ExportView, s key.Space) dynamic.Interface {
	r.t.Helper()
	d, err := dynamic.NewForConfig(r.config(route.ExportViewRoot(f, s).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// informs starts an informer, of metadata alone if that is said. It ends with the test.
func (r *running) informs(f key.ExportView, s key.Space, gvr schema.GroupVersionResource, metadataOnly bool) cache.SharedIndexInformer {
	r.t.Helper()
	stop := make(chan struct{})
	r.t.Cleanup(func() { close(stop) })
	if !metadataOnly {
		factory := dynamicinformer.NewDynamicSharedInformerFactory(r.exportView(f, s), 0)
		informer := factory.ForResource(gvr).Informer()
		factory.Start(stop)
		return informer
	}
	client, err := metadata.NewForConfig(r.config(route.ExportViewRoot(f, s).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := factory.ForResource(gvr).Informer()
	factory.Start(stop)
	return informer
}

// eventuallyHas waits until an informer has exactly the objects with some names.
func (r *running) eventuallyHas(informer cache.SharedIndexInformer, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	r.eventually(func() string {
		var got []string
		for _, o := range informer.GetStore().List() {
			m, err := meta.Accessor(o)
			if err != nil {
				return err.Error()
			}
			got = append(got, m.GetNamespace()+"/"+m.GetName())
		}
		slices.Sort(got)
		if !informer.HasSynced() || !slices.Equal(got, want) {
			return fmt.Sprintf("it has %v, want %v", got, want)
		}
		return ""
	})
}

// claims has the export of space p claim ConfigMaps.
func (r *running) claims(verbs ...any) {
	r.t.Helper()
	r.patchObject("p", exportsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"configmaps","verbs":`+jsonOf(r.t, verbs)+`}]}}`)
}

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// accepts has a space accept the claim of ConfigMaps.
func (r *running) accepts(s key.Space) {
	r.t.Helper()
	r.patchObject(s, bindingsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"configmaps","state":"Accepted"}]}}`)
}

// TestExportViewsAreFollowed: stock informers that begin before there is an export follow the
// objects of all that bind it, of one, and of a slice; what they have they can write.
func TestExportViewsAreFollowed(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	all, partial := r.informs(wholeExport(), key.AllSpaces, clustersGVR, false), r.informs(wholeExport(), key.AllSpaces, clustersGVR, true)
	gold, rest := r.informs(classSlice("gold"), key.AllSpaces, clustersGVR, false), r.informs(classSlice(""), key.AllSpaces, clustersGVR, true)
	ofC := r.informs(classSlice("gold"), "c", clustersGVR, false)
	r.exports("p", "c", "d")
	r.create("p", exportViewsGVR, fleetView("classes", "field", ".spec.class"))
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.create("d", clustersGVR, cluster("one", "silver"))
	none := cluster("two", "")
	unstructured.RemoveNestedField(none.Object, "spec", "class")
	r.create("d", clustersGVR, none)

	r.eventuallyHas(all, "c--default/one", "d--default/one", "d--default/two")
	r.eventuallyHas(partial, "c--default/one", "d--default/one", "d--default/two")
	r.eventuallyHas(gold, "c--default/one")
	r.eventuallyHas(rest, "d--default/two")
	r.eventuallyHas(ofC, "default/one")

	known, _, err := gold.GetStore().GetByKey("c--default/one")
	if err != nil {
		t.Fatal(err)
	}
	mine := known.(*unstructured.Unstructured).DeepCopy()
	mine.Object["status"] = map[string]any{"phase": "Running"}
	if _, err := r.exportView(classSlice("gold"), key.AllSpaces).Resource(clustersGVR).Namespace("c--default").UpdateStatus(t.Context(), mine, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	there, err := r.clusters("c").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if phase, _, _ := unstructured.NestedString(there.Object, "status", "phase"); phase != "Running" || len(there.GetAnnotations()) != 0 {
		t.Errorf("in its space: %v", there)
	}
	if _, err := r.clusters("d").Patch(t.Context(), "two", types.MergePatchType, []byte(`{"spec":{"class":"gold"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyHas(gold, "c--default/one", "d--default/two")
	r.eventuallyHas(rest)
	r.remove("c", bindingsGVR, "fleet")
	r.eventuallyHas(all, "d--default/one", "d--default/two")
	r.eventuallyHas(partial, "d--default/one", "d--default/two")
}

// TestExportViewsShowWhatIsClaimed: an export view contains exactly the claimed objects that a space has accepted.
// A client can write objects that appear later as soon as its watch has received them.
func TestExportViewsShowWhatIsClaimed(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c", "d")
	r.claims("get", "list", "watch", "update")
	for _, s := range []key.Space{"c", "d"} {
		r.create(s, configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	}
	all := r.informs(wholeExport(), key.AllSpaces, configMapsGVR, false)
	r.eventuallyHas(all)
	r.accepts("c")
	r.eventuallyHas(all, "c--default/x")
	r.changesFromCache(all)
	r.accepts("d")
	r.eventuallyHas(all, "c--default/x", "d--default/x")

	maps := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR)
	if err := maps.Namespace("c--default").Delete(t.Context(), "x", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "claim") {
		t.Errorf("deleted what is not claimed so: %v", err)
	}
	r.claims("get", "list", "watch", "update", "delete") // which no space has accepted
	r.eventuallyHas(all, "c--default/x", "d--default/x")
	if err := maps.Namespace("c--default").Delete(t.Context(), "x", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "claim") {
		t.Errorf("deleted what is not accepted so: %v", err)
	}
}

// changesFromCache updates what an informer has, as controllers do.
func (r *running) changesFromCache(informer cache.SharedIndexInformer) {
	r.t.Helper()
	known, _, err := informer.GetStore().GetByKey("c--default/x")
	if err != nil {
		r.t.Fatal(err)
	}
	mine := known.(*unstructured.Unstructured).DeepCopy()
	mine.Object["data"] = map[string]any{"k": "by the provider"}
	if _, err := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR).Namespace("c--default").Update(r.t.Context(), mine, metav1.UpdateOptions{}); err != nil {
		r.t.Errorf("what came by a watch can't be updated: %v", err)
	}
}

// TestExportViewsHideWhatIsNotAccepted: what a space accepted when less was claimed is shown for
// that alone, until it accepts more.
func TestExportViewsHideWhatIsNotAccepted(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.claims("get")
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", nil, nil))
	r.accepts("c")
	maps := r.exportView(wholeExport(), key.AllSpaces).Resource(configMapsGVR)
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("listed what is not claimed so")
	}
	r.eventually(func() string {
		if _, err := maps.Namespace("c--default").Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	r.claims("get", "list", "watch")
	all := r.informs(wholeExport(), key.AllSpaces, configMapsGVR, false)
	r.eventuallyHas(all)
	r.patchObject("c", bindingsGVR, "fleet", `{"spec":{"claims":[]}}`)
	r.accepts("c")
	r.eventuallyHas(all, "c--default/x")
}

// TestMissingExportViews: an API that is not exported, sliced or bound is not found, for any user.
func TestMissingExportViews(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.addSpace("d")
	r.create("p", exportViewsGVR, fleetView("classes", "label", "class", "gold"))
	operator := r.as("operator", "system:masters")
	for path, want := range map[string]int{
		"/views/exports/p/fleet/spaces/*/apis/fleet.example.org/v1/clusters":               200,
		"/views/exports/p/fleet/spaces/c/apis/fleet.example.org/v1/clusters":               200,
		"/views/exports/p/fleet/spaces/*/apis":                                             200,
		"/views/exports/p/fleet/spaces/*/openapi/v3":                                       200,
		"/views/exports/p/fleet/spaces/*/version":                                          200,
		"/views/slices/p/classes/values/gold/spaces/*/apis/fleet.example.org/v1/clusters":  200,
		"/views/slices/p/classes/rest/spaces/c/apis/fleet.example.org/v1/clusters":         200,
		"/views/slices/p/classes/values/other/spaces/*/apis/fleet.example.org/v1/clusters": 404,
		"/views/slices/p/none/rest/spaces/*/apis/fleet.example.org/v1/clusters":            404,
		"/views/exports/p/none/spaces/*/apis":                                              404,
		"/views/exports/none/fleet/spaces/*/apis":                                          404,
		"/views/exports/p/fleet/spaces/d/apis":                                             404,
		"/views/exports/p/fleet/spaces/*/api/v1/configmaps":                                404,
		"/views/exports/p/fleet/c/apis":                                                    404,
	} {
		if code, body := operator.send("GET "+path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := operator.send("GET /views/exports/p/fleet/spaces/*/apis/fleet.example.org/v1", "")
	for _, text := range []string{`"clusters"`, `"clusters/status"`, `"create"`} {
		if !strings.Contains(body, text) {
			t.Errorf("discovery does not say %s: %s", text, body)
		}
	}
}

// TestExportViewsGoOn: a watch goes on where it was when the hub has started again.
func TestExportViewsGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.exports("p", "c", "d")
	r.create("p", exportViewsGVR, fleetView("classes", "field", ".spec.class"))
	r.create("c", clustersGVR, cluster("one", "gold"))
	before, err := r.exportView(classSlice("gold"), key.AllSpaces).Resource(clustersGVR).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(before.Items) != 1 {
		t.Fatalf("%v, %v", before, err)
	}
	r.stop()
	r = start(t, dir)
	r.create("d", clustersGVR, cluster("two", "gold"))
	w, err := r.exportView(classSlice("gold"), key.AllSpaces).Resource(clustersGVR).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	e := limit.Receive(r.t, w.ResultChan(), "an event")
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type != watch.Added || o.GetNamespace() != "d--default" || !maps.Equal(o.GetAnnotations(), map[string]string{
		"orrery.dev/space": "d", "orrery.dev/source-namespace": "default", "orrery.dev/source-name": "two"}) {
		t.Errorf("%+v", e)
	}
}
