package hub_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

var (
	exportsGVR  = v1alpha1.GroupVersion.WithResource("apiexports")
	bindingsGVR = v1alpha1.GroupVersion.WithResource("apibindings")
	clustersGVR = schema.GroupVersionResource{Group: "fleet.example.org", Version: "v1", Resource: "clusters"}
)

// clusterDefinition defines clusters of a class, small unless something else is said.
func clusterDefinition() *unstructured.Unstructured {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "clusters.fleet.example.org", nil, map[string]any{"spec": map[string]any{
		"group": "fleet.example.org", "scope": "Namespaced", "names": map[string]any{"plural": "clusters", "kind": "Cluster", "shortNames": []any{"cl"}},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"additionalPrinterColumns": []any{map[string]any{"name": "Class", "type": "string", "jsonPath": ".spec.class"}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": map[string]any{
					"class": map[string]any{"type": "string"}, "size": map[string]any{"type": "string", "default": "small"},
				}},
				"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		}},
	}})
}

func cluster(name, class string) *unstructured.Unstructured {
	return object("fleet.example.org/v1", "Cluster", "default", name, nil, map[string]any{"spec": map[string]any{"class": class}})
}

func (r *running) clusters(s key.Space) dynamic.ResourceInterface {
	return r.space(s).Resource(clustersGVR).Namespace("default")
}

// exports has a space export clusters, and others bind them.
func (r *running) exports(provider key.Space, consumers ...key.Space) {
	r.t.Helper()
	r.addSpace(provider)
	r.create(provider, crdsGVR, clusterDefinition())
	r.create(provider, exportsGVR, fleetExport())
	for _, s := range consumers {
		r.addSpace(s)
		r.create(s, bindingsGVR, fleetBinding(provider))
	}
}

func fleetExport() *unstructured.Unstructured {
	return object("orrery.dev/v1alpha1", "APIExport", "", "fleet", nil, map[string]any{"spec": map[string]any{
		"resources": []any{map[string]any{"group": "fleet.example.org", "resource": "clusters"}},
	}})
}

func fleetBinding(provider key.Space) *unstructured.Unstructured {
	return object("orrery.dev/v1alpha1", "APIBinding", "", "fleet", nil, map[string]any{"spec": map[string]any{
		"export": map[string]any{"space": string(provider), "name": "fleet"},
	}})
}

// bound waits until the binding of a space is Ready, or not, by a reason.
func (r *running) bound(s key.Space, reason string) (b v1alpha1.APIBinding) {
	r.t.Helper()
	r.eventually(func() string {
		u, err := r.space(s).Resource(bindingsGVR).Get(r.t.Context(), "fleet", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		b = v1alpha1.APIBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReady && c.Reason == reason && c.Status == map[bool]metav1.ConditionStatus{true: "True", false: "False"}[reason == v1alpha1.ReasonServed]
		}) {
			return fmt.Sprintf("want %s: %+v", reason, b.Status)
		}
		return ""
	})
	return b
}

// TestBindAndUse: what a space binds it has at once, by its provider's schema.
func TestBindAndUse(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	made := r.create("c", clustersGVR, cluster("one", "gold"))
	if size, _, _ := unstructured.NestedString(made.Object, "spec", "size"); size != "small" {
		t.Errorf("no default: %v", made.Object)
	}
	wrong := cluster("two", "gold")
	wrong.Object["spec"] = map[string]any{"class": int64(1)}
	if _, err := r.clusters("c").Create(t.Context(), wrong, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("not validated: %v", err)
	}
	if _, err := r.clusters("p").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in the provider's own space: %v", err)
	}
	table := r.operatorGets("/spaces/c/apis/fleet.example.org/v1/clusters", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table, `"name":"Class"`) || !strings.Contains(table, `"gold"`) {
		t.Errorf("printed as %s", table)
	}
	b := r.bound("c", v1alpha1.ReasonServed)
	if len(b.Status.Resources) != 1 || b.Status.Resources[0].Kind != "Cluster" || b.Status.SpaceUID == "" {
		t.Errorf("the binding says %+v", b.Status)
	}
}

func (r *running) operatorGets(path, accept string) string {
	r.t.Helper()
	code, body := r.as("operator", "system:masters").send("GET "+path, "", "Accept", accept)
	if code != 200 {
		r.t.Fatalf("%s: %d %s", path, code, body)
	}
	return body
}

// TestBindingFollowsDefinition: a change of the provider's CRD is one of the consumer's
// resource, and ends its watches.
func TestBindingFollowsDefinition(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.create("c", clustersGVR, cluster("one", "gold"))
	w, err := r.clusters("c").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	r.redefines(func(version map[string]any) {
		zone := map[string]any{"type": "string", "default": "z"}
		if err := unstructured.SetNestedMap(version, zone, "schema", "openAPIV3Schema", "properties", "spec", "properties", "zone"); err != nil {
			t.Fatal(err)
		}
	})
	r.ends(w)
	got, err := r.clusters("c").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if zone, _, _ := unstructured.NestedString(got.Object, "spec", "zone"); zone != "z" {
		t.Errorf("read by an old definition: %v", got.Object)
	}
}

// redefines changes the version of the CRD of space p.
func (r *running) redefines(change func(version map[string]any)) {
	r.t.Helper()
	definitions := r.space("p").Resource(crdsGVR)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		u, err := definitions.Get(r.t.Context(), "clusters.fleet.example.org", metav1.GetOptions{})
		if err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		if err != nil {
			return err
		}
		change(versions[0].(map[string]any))
		if err := unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		_, err = definitions.Update(r.t.Context(), u, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// ends waits for the end of a watch.
func (r *running) ends(w watch.Interface) {
	r.t.Helper()
	timeout := time.After(timeout)
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-timeout:
			r.t.Fatal("the watch goes on")
		}
	}
}

// TestUnbinding: the objects of a binding are deleted before it, after their finalizers; then its names
// are free.
func TestUnbinding(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	held := cluster("held", "gold")
	held.SetFinalizers([]string{"example.org/hold"})
	r.create("c", clustersGVR, held)
	r.create("c", clustersGVR, cluster("free", "gold"))
	own := r.create("c", crdsGVR, clusterDefinition())
	if condition := conditionOf(own, "NamesAccepted"); condition != "False" {
		t.Errorf("a CRD in the way has its names: %v", own.Object)
	}
	ctx := t.Context()
	if err := r.space("c").Resource(bindingsGVR).Delete(ctx, "fleet", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.bound("c", v1alpha1.ReasonUnbinding)
	if _, err := r.clusters("c").Create(ctx, cluster("late", "gold"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsMethodNotSupported(err) {
		t.Errorf("made while unbinding: %v", err)
	}
	r.eventually(func() string {
		list, err := r.clusters("c").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "held" {
			return fmt.Sprintf("left: %v, %v", list, err)
		}
		return ""
	})
	if _, err := r.clusters("c").Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		u, err := r.space("c").Resource(crdsGVR).Get(ctx, own.GetName(), metav1.GetOptions{})
		if err != nil || conditionOf(u, "Established") != "True" {
			return fmt.Sprintf("the CRD waits: %v, %v", u, err)
		}
		return ""
	})
	if list, err := r.clusters("c").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the next owner has %v, %v", list, err)
	}
}

func conditionOf(u *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"].(string)
		}
	}
	return ""
}

// TestProviderLeaves: whatever a provider does, the objects of its consumers stay and can be
// read and deleted; writes wait, until all is as it was.
func TestProviderLeaves(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.create("c", clustersGVR, cluster("one", "gold"))
	deletes := func(gvr schema.GroupVersionResource, name string) func() {
		return func() {
			if err := r.space("p").Resource(gvr).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		reason       string
		leaves, back func()
	}{
		{v1alpha1.ReasonNoSuchExport, deletes(exportsGVR, "fleet"), func() { r.create("p", exportsGVR, fleetExport()) }},
		{v1alpha1.ReasonNoDefinition, deletes(crdsGVR, "clusters.fleet.example.org"), func() { r.create("p", crdsGVR, clusterDefinition()) }},
		{v1alpha1.ReasonNotExported,
			func() { r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[]}}`) },
			func() {
				r.patchObject("p", exportsGVR, "fleet", `{"spec":{"resources":[{"group":"fleet.example.org","resource":"clusters"}]}}`)
			}},
	} {
		c.leaves()
		r.bound("c", c.reason)
		r.readsOn(c.reason)
		c.back()
		r.bound("c", v1alpha1.ReasonServed)
		if _, err := r.clusters("c").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"class":"`+c.reason+`"}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("after %s: %v", c.reason, err)
		}
	}
}

// readsOn: the objects of space c can be read and deleted, and are not written.
func (r *running) readsOn(why string) {
	r.t.Helper()
	ctx := r.t.Context()
	if u, err := r.clusters("c").Get(ctx, "one", metav1.GetOptions{}); err != nil || conditionOf(u, "none") != "" {
		r.t.Errorf("%s: read: %v", why, err)
	}
	_, err := r.clusters("c").Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"class":"lead"}}`), metav1.PatchOptions{})
	if seconds, _ := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || seconds == 0 || !strings.Contains(err.Error(), `"fleet"`) {
		r.t.Errorf("%s: written: %v", why, err)
	}
	if err := r.clusters("c").Delete(ctx, "one", metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		r.t.Errorf("%s: deleted: %v", why, err)
	}
}

// TestBindingConflicts: each name has one owner, which keeps it until it is deleted.
func TestBindingConflicts(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p")
	r.exports("q")
	for s, first := range seeds.Ordered(map[key.Space]struct {
		gvr schema.GroupVersionResource
		*unstructured.Unstructured
	}{"c": {crdsGVR, clusterDefinition()}, "d": {bindingsGVR, fleetBinding("q")}}) {
		if first.gvr == bindingsGVR {
			first.SetName("first")
		}
		r.addSpace(s)
		r.create(s, first.gvr, first.Unstructured)
		r.create(s, clustersGVR, cluster("one", "gold"))
		r.create(s, bindingsGVR, fleetBinding("p"))
		b := r.bound(s, v1alpha1.ReasonTaken)
		if c := b.Status.Conditions[slices.IndexFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionReady })]; !strings.Contains(c.Message, strconv.Quote(first.GetName())) || len(b.Status.Resources) > 0 {
			t.Errorf("%s: the binding says %+v", s, b.Status)
		}
		if _, err := r.clusters(s).Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if err := r.space(s).Resource(first.gvr).Delete(t.Context(), first.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.bound(s, v1alpha1.ReasonServed)
		if list, err := r.clusters(s).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%s: the next owner has %v, %v", s, list, err)
		}
	}
}

// TestAnotherProvider: a later space of the provider's name gets nothing of its consumers,
// also from a hub that was restarted.
func TestAnotherProvider(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.exports("p", "c")
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.again("spaces", "Space", "p")
	r.create("p", crdsGVR, clusterDefinition())
	r.create("p", exportsGVR, fleetExport())
	r.bound("c", v1alpha1.ReasonAnotherSpace)
	r.stop()
	*r = *start(t, dir)
	r.bound("c", v1alpha1.ReasonAnotherSpace)
	r.readsOn(v1alpha1.ReasonAnotherSpace)
}

// TestUnbindingIsPolicy: the removal guard of locations counts the objects that are removed with a binding.
func TestUnbindingIsPolicy(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("c", "p", "x", "app", nil)
	a := r.join("a")
	one := cluster("one", "gold")
	one.SetLabels(map[string]string{"what": "app"})
	r.create("c", clustersGVR, one)
	rev := r.row("o/c/fleet.example.org/clusters/default/one").ModRev
	_, mark := a.walk(holding{})
	for mark.Revision < rev {
		_, mark = a.walk(holding{})
	}
	bindings := r.space("c").Resource(bindingsGVR)
	if err := bindings.Delete(t.Context(), "fleet", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if _, err := bindings.Get(t.Context(), "fleet", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the binding is still there"
		}
		return ""
	})
	checkDel(t, a, mark, r.Table.Rev(), wire.Unassigned, false)
}

// TestAcceptedClaims: a claim is accepted as it was when that was said.
func TestAcceptedClaims(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	claims := func(verbs string) {
		r.patchObject("p", exportsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"secrets","verbs":[`+verbs+`]}]}}`)
	}
	eventuallyBound := func(want string, status metav1.ConditionStatus) {
		t.Helper()
		r.eventually(func() string {
			b := r.bound("c", v1alpha1.ReasonServed)
			var verbs []string
			for _, c := range b.Status.Claims {
				verbs = append(verbs, c.Verbs...)
			}
			if got := strings.Join(verbs, " "); got != want || !meta.IsStatusConditionPresentAndEqual(b.Status.Conditions, v1alpha1.ConditionClaimsDecided, status) {
				return fmt.Sprintf("want %q and %s: %+v", want, status, b.Status)
			}
			return ""
		})
	}
	decide := func(state string) {
		r.patchObject("c", bindingsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"secrets","state":"`+state+`"}]}}`)
	}
	eventuallyBound("", metav1.ConditionTrue)
	claims(`"get"`)
	eventuallyBound("", metav1.ConditionFalse)
	decide("Accepted")
	eventuallyBound("get", metav1.ConditionTrue)
	claims(`"get","delete"`)
	eventuallyBound("get", metav1.ConditionFalse)
	decide("Rejected")
	eventuallyBound("", metav1.ConditionTrue)
	decide("Accepted")
	eventuallyBound("get delete", metav1.ConditionTrue)
	if _, err := r.space("c").Resource(bindingsGVR).Patch(t.Context(), "fleet", types.MergePatchType, []byte(`{"status":{"claims":null,"resources":[],"spaceUID":"x"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventuallyBound("get delete", metav1.ConditionTrue)
	r.create("c", clustersGVR, cluster("one", "gold"))
}
