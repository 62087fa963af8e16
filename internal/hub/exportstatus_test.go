package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

var exportViewsGVR = v1alpha1.GroupVersion.WithResource("apiexportviews")

// fleetView slices the fleet by a label or a field.
func fleetView(name, field, value string, values ...any) *unstructured.Unstructured {
	spec := map[string]any{"export": "fleet", "split": map[string]any{field: value}}
	if len(values) > 0 {
		spec["values"] = values
	}
	return object("orrery.dev/v1alpha1", "APIExportView", "", name, nil, map[string]any{"spec": spec})
}

// exportSays waits until an APIExport of space p is Ready or not, by a reason, with so many bindings.
func (r *running) exportSays(reason string, bindings int32) (e v1alpha1.APIExport) {
	r.t.Helper()
	r.eventually(func() string {
		u, err := r.space("p").Resource(exportsGVR).Get(r.t.Context(), "fleet", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		e = v1alpha1.APIExport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &e); err != nil {
			return err.Error()
		}
		if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason || e.Status.Bindings != bindings {
			return fmt.Sprintf("want %s, %d bindings: %+v", reason, bindings, e.Status)
		}
		return ""
	})
	return e
}

// viewSays waits until an APIExportView of space p is Ready or not, by a reason, and has
// slices VALUE=OBJECTS, of which the rest has no value.
func (r *running) viewSays(name, reason string, slicesOf ...string) (v v1alpha1.APIExportView) {
	r.t.Helper()
	r.eventually(func() string {
		u, err := r.space("p").Resource(exportViewsGVR).Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		v = v1alpha1.APIExportView{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v); err != nil {
			return err.Error()
		}
		var got []string
		for _, e := range v.Status.Endpoints {
			got = append(got, fmt.Sprintf("%s=%d", e.Value, e.Objects))
		}
		if v.Status.Rest != nil {
			got = append(got, fmt.Sprintf("=%d", v.Status.Rest.Objects))
		}
		if c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason || !slices.Equal(got, slicesOf) {
			return fmt.Sprintf("want %s, %q: %+v", reason, slicesOf, v.Status)
		}
		return ""
	})
	return v
}

// TestExportStatus: the status of an APIExport reports whether its CRDs exist, lists the spaces that have
// bound it, and contains its URL.
func TestExportStatus(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("p")
	r.create("p", exportsGVR, fleetExport())
	e := r.exportSays(v1alpha1.ReasonNoDefinition, 0)
	if m := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(m, "clusters.fleet.example.org") {
		t.Errorf("which one is missing: %s", m)
	}
	r.create("p", crdsGVR, clusterDefinition())
	if e = r.exportSays(v1alpha1.ReasonServed, 0); !strings.HasSuffix(e.Status.URL, "/views/exports/p/fleet/spaces/*") || !strings.HasPrefix(e.Status.URL, "https://") {
		t.Errorf("served at %s", e.Status.URL)
	}
	for i := range 3 {
		s := key.Space(fmt.Sprintf("c%d", i))
		r.addSpace(s)
		r.create(s, bindingsGVR, fleetBinding("p"))
	}
	r.exportSays(v1alpha1.ReasonServed, 3)
	r.remove("c1", bindingsGVR, "fleet")
	r.exportSays(v1alpha1.ReasonServed, 2)
	r.remove("p", crdsGVR, "clusters.fleet.example.org")
	r.exportSays(v1alpha1.ReasonNoDefinition, 2)
}

func (r *running) remove(s key.Space, resource schema.GroupVersionResource, name string) {
	r.t.Helper()
	if err := r.space(s).Resource(resource).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestExportViewStatus: a view lists the values that there are, or those that it names, with
// their counts, across consumers, and writes nothing while nothing changes.
func TestExportViewStatus(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c", "d")
	r.create("p", exportViewsGVR, fleetView("classes", "field", ".spec.class"))
	r.create("p", exportViewsGVR, fleetView("listed", "field", ".spec.class", "silver", "gold"))
	r.create("p", exportViewsGVR, fleetView("owners", "label", "example.org/owner"))
	r.create("p", exportViewsGVR, fleetView("missing", "field", ".spec.region"))
	r.viewSays("classes", v1alpha1.ReasonServed, "=0")
	r.viewSays("listed", v1alpha1.ReasonServed, "gold=0", "silver=0", "=0")
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.create("d", clustersGVR, cluster("one", "gold"))
	r.create("d", clustersGVR, cluster("two", "bronze"))
	r.create("d", clustersGVR, cluster("three", "not a label"))
	v := r.viewSays("classes", v1alpha1.ReasonServed, "bronze=1", "gold=2", "=1")
	if url := v.Status.Endpoints[1].URL; v.Status.Slices != 2 || !strings.HasSuffix(url, "/views/slices/p/classes/values/gold") || !strings.HasSuffix(v.Status.Rest.URL, "/views/slices/p/classes/rest") {
		t.Errorf("served at %s and %s, %d slices", url, v.Status.Rest.URL, v.Status.Slices)
	}
	r.viewSays("listed", v1alpha1.ReasonServed, "gold=2", "silver=0", "=2")
	r.viewSays("owners", v1alpha1.ReasonServed, "=4")
	v = r.viewSays("missing", v1alpha1.ReasonNoSuchField, "=4")
	if m := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(m, ".spec.region") || !strings.Contains(m, "clusters.fleet.example.org/v1") {
		t.Errorf("which field of what: %s", m)
	}
	r.remove("d", bindingsGVR, "fleet")
	r.viewSays("classes", v1alpha1.ReasonServed, "gold=1", "=0")
	r.viewSays("owners", v1alpha1.ReasonServed, "=1")
	r.exportSays(v1alpha1.ReasonServed, 1)

	r.redefines(func(version map[string]any) {
		region := map[string]any{"type": "string"}
		if err := unstructured.SetNestedMap(version, region, "schema", "openAPIV3Schema", "properties", "spec", "properties", "region"); err != nil {
			t.Fatal(err)
		}
	})
	r.viewSays("missing", v1alpha1.ReasonServed, "=1")
	r.checkDefault()
	r.idle()
	rev := r.Table.Rev()
	r.throughout(limit.Window, func() string {
		if now := r.Table.Rev(); now != rev {
			return fmt.Sprintf("the log went from %d to %d", rev, now)
		}
		return ""
	})
	r.remove("p", exportsGVR, "fleet")
	r.viewSays("classes", v1alpha1.ReasonNoSuchExport)
}

// checkDefault: if the field of a view has a default, an object without a value reads as if it had the
// default, so the view reports that it is not in that slice. A write stores the value.
func (r *running) checkDefault() {
	r.t.Helper()
	defaults := func(to ...string) {
		r.t.Helper()
		r.redefines(func(version map[string]any) {
			region := map[string]any{"type": "string"}
			if len(to) > 0 {
				region["default"] = to[0]
			}
			if err := unstructured.SetNestedMap(version, region, "schema", "openAPIV3Schema", "properties", "spec", "properties", "region"); err != nil {
				r.t.Fatal(err)
			}
		})
	}
	defaults("north")
	v := r.viewSays("missing", v1alpha1.ReasonFieldDefaulted, "=1")
	if m := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(m, ".spec.region has a default in the schema of clusters.fleet.example.org/v1") {
		r.t.Errorf("which field of what: %s", m)
	}
	if u, err := r.clusters("c").Get(r.t.Context(), "one", metav1.GetOptions{}); err != nil || dig(u.Object, "spec", "region") != "north" {
		r.t.Errorf("%v, %v", u, err)
	}
	// Until the object is written, it can't be moved to another slice.
	if _, err := r.clusters("c").Patch(r.t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"region":"south"}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		r.t.Errorf("given to another slice than it reads as: %v", err)
	}
	if _, err := r.clusters("c").Patch(r.t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"some":"label"}}}`), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.viewSays("missing", v1alpha1.ReasonFieldDefaulted, "north=1", "=0")
	defaults()
	r.viewSays("missing", v1alpha1.ReasonServed, "north=1", "=0")
}
