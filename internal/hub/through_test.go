package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// slicedClusters defines clusters that have a scale, and name a Secret.
func slicedClusters(t testing.TB) *unstructured.Unstructured {
	crd := clusterDefinition()
	version := dig(crd.Object, "spec", "versions").([]any)[0].(map[string]any)
	version["subresources"].(map[string]any)["scale"] = map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
	for name, kind := range map[string]string{"replicas": "integer", "secret": "string"} {
		if err := unstructured.SetNestedMap(version, map[string]any{"type": kind}, "schema", "openAPIV3Schema", "properties", "spec", "properties", name); err != nil {
			t.Fatal(err)
		}
	}
	return crd
}

// sliceFleet has p export clusters, sliced by class and by the label tier, and claim Secrets,
// those that clusters name, and ConfigMaps with a label. Space c has accepted the claims, d has
// not, and u has clusters of its own.
func (r *running) sliceFleet() {
	r.t.Helper()
	for _, s := range []key.Space{"p", "c", "d", "u"} {
		r.addSpace(s)
	}
	for _, s := range []key.Space{"p", "u"} {
		r.create(s, crdsGVR, slicedClusters(r.t))
	}
	export := fleetExport()
	export.Object["spec"].(map[string]any)["claims"] = []any{
		map[string]any{"group": "", "resource": "secrets", "verbs": []any{"*"}, "referredBy": []any{
			map[string]any{"group": "fleet.example.org", "resource": "clusters", "path": ".spec.secret"},
		}},
		map[string]any{"group": "", "resource": "configmaps", "verbs": []any{"*"}, "selector": map[string]any{"matchLabels": map[string]any{"use": "fleet"}}},
	}
	r.create("p", exportsGVR, export)
	r.create("p", exportViewsGVR, fleetView("classes", "field", ".spec.class"))
	r.create("p", exportViewsGVR, fleetView("tiers", "label", "tier"))
	accepting := fleetBinding("p")
	accepting.Object["spec"].(map[string]any)["claims"] = []any{
		map[string]any{"group": "", "resource": "secrets", "state": "Accepted"}, map[string]any{"group": "", "resource": "configmaps", "state": "Accepted"},
	}
	r.create("c", bindingsGVR, accepting)
	r.create("d", bindingsGVR, fleetBinding("p"))
}

// controller has a token that may do all on what p exports and slices, and nothing else.
func (r *running) controller() string {
	r.t.Helper()
	r.grant("p", "controller", `{"subjects":[{"kind":"User","name":"controller"}],
		"rules":[{"apiGroups":["orrery.dev"],"resources":["apiexports/content","apiexportviews/content"],"verbs":["*"]}]}`)
	return r.token(`{"user":"controller"}`).Status.Token
}

// exportViewOf returns an export view of space p: the whole export, the slice of a view with a value, or without a
// value the slice of all others.
func exportViewOf(view, value string) key.ExportView {
	if view == "" {
		return key.ExportView{Space: "p", Name: "fleet"}
	}
	return key.ExportView{Space: "p", Name: view, View: true, Value: value}
}

// through returns a client with a token for a space in an export view.
func (r *running) through(token string, f key.ExportView, s key.Space) dynamic.Interface {
	r.t.Helper()
	c := rest.AnonymousClientConfig(r.config(route.ExportViewRoot(f, s).String()))
	c.BearerToken = token
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return persistent{next} })
	d, err := dynamic.NewForConfig(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// TestWritesToWhatIsBound: a provider's controller with rights to what is exported, and to
// nothing else, does everything with objects of a kind that their space only binds.
func TestWritesToWhatIsBound(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	token := r.controller()
	for name, path := range map[string]struct {
		view      key.ExportView
		space     key.Space
		namespace string
	}{
		"export":                {exportViewOf("", ""), key.AllSpaces, "c--default"},
		"export, one space":     {exportViewOf("", ""), "c", "default"},
		"slice":                 {exportViewOf("classes", "gold"), key.AllSpaces, "c--default"},
		"slice, one space":      {exportViewOf("classes", "gold"), "c", "default"},
		"slice by label":        {exportViewOf("tiers", "one"), key.AllSpaces, "c--default"},
		"rest":                  {exportViewOf("tiers", ""), key.AllSpaces, "c--default"},
		"not accepting a claim": {exportViewOf("classes", "gold"), key.AllSpaces, "d--default"},
	} {
		t.Run(name, func(t *testing.T) {
			clusters := r.through(token, path.view, path.space).Resource(clustersGVR).Namespace(path.namespace)
			in := key.Space("c")
			if strings.HasPrefix(path.namespace, "d--") {
				in = "d"
			}
			r.writesAll(t, clusters, path.namespace, in)
		})
	}
}

// writesAll sends all kinds of writes of clusters of a space, by an export view.
func (r *running) writesAll(t *testing.T, clusters dynamic.ResourceInterface, namespace string, in key.Space) {
	ctx := t.Context()
	must := func(u *unstructured.Unstructured, err error) *unstructured.Unstructured {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	one := cluster("one", "gold")
	one.SetNamespace(namespace)
	made := must(clusters.Create(ctx, one, metav1.CreateOptions{}))
	if size, _, _ := unstructured.NestedString(made.Object, "spec", "size"); size != "small" || made.GetNamespace() != namespace {
		t.Errorf("made by another definition, or called otherwise: %v", made.Object)
	}
	made.Object["spec"].(map[string]any)["replicas"] = int64(1)
	made = must(clusters.Update(ctx, made, metav1.UpdateOptions{}))
	made.Object["status"] = map[string]any{"phase": "up"}
	must(clusters.UpdateStatus(ctx, made, metav1.UpdateOptions{}))
	must(clusters.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"size":"big"}}`), metav1.PatchOptions{}))
	must(clusters.Patch(ctx, "one", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/annotations","value":{"k":"v"}}]`), metav1.PatchOptions{}))
	must(clusters.Patch(ctx, "one", types.MergePatchType, []byte(`{"status":{"replicas":2}}`), metav1.PatchOptions{}, "status"))
	must(clusters.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale"))
	scale := must(clusters.Get(ctx, "one", metav1.GetOptions{}, "scale"))
	if n, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas"); n != 2 {
		t.Errorf("scale: %v", scale.Object)
	}
	applied := func(name string) *unstructured.Unstructured {
		u := cluster(name, "gold")
		u.SetNamespace(namespace)
		u.SetFinalizers([]string{"example.org/hold"})
		return u
	}
	for _, name := range []string{"one", "two"} {
		must(clusters.Apply(ctx, name, applied(name), metav1.ApplyOptions{FieldManager: "controller", Force: true}))
	}
	stored := must(r.clusters(in).Get(ctx, "one", metav1.GetOptions{}))
	if got := fmt.Sprint(dig(stored.Object, "spec"), dig(stored.Object, "status"), stored.GetAnnotations()); got != "map[class:gold replicas:3 size:big] map[phase:up replicas:2] map[k:v]" {
		t.Errorf("stored: %s", got)
	}
	if err := clusters.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := clusters.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if held := must(clusters.Get(ctx, name, metav1.GetOptions{})); held.GetDeletionTimestamp() == nil {
			t.Errorf("%s is not being deleted", name)
		}
		must(clusters.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	}
	if list := mustList(t, r.clusters(in)); len(list.Items) != 0 {
		t.Errorf("left: %v", list.Items)
	}
}

func mustList(t *testing.T, client dynamic.ResourceInterface) *unstructured.UnstructuredList {
	t.Helper()
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
