package write_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	crds    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgets = "/apis/example.com/v1/namespaces/default/widgets"
)

func schemaOf(properties object) object {
	return object{"openAPIV3Schema": object{"type": "object", "properties": properties}}
}

func widgetSpec(extra object) object {
	properties := object{
		"replicas": object{"type": "integer"},
		"size":     object{"type": "string", "default": "small"},
		"ports": object{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []string{"name"},
			"items": object{"type": "object", "required": []string{"name"}, "properties": object{"name": object{"type": "string"}, "port": object{"type": "integer"}}}},
	}
	maps.Copy(properties, extra)
	return object{
		"type": "object", "properties": properties,
		"x-kubernetes-validations": []any{object{"rule": "!has(self.replicas) || self.replicas <= 10", "message": "at most ten"}},
	}
}

// crd defines widgets, or another resource of example.com.
func crd(plural, kind string, spec object) object {
	version := func(name string, storage bool) object {
		return object{
			"name": name, "served": true, "storage": storage,
			"schema": schemaOf(object{"spec": spec, "status": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
			"subresources": object{"status": object{}, "scale": object{
				"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
		}
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": plural + ".example.com"},
		"spec": object{
			"group": "example.com", "scope": "Namespaced", "names": object{"plural": plural, "kind": kind, "shortNames": []string{plural[:2]}},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	}
}

func widget(name string, spec object) object {
	return object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"name": name}, "spec": spec}
}

func condition(a answer, t string) any {
	conditions, _ := a.field("status", "conditions").([]any)
	for _, c := range conditions {
		if c := c.(object); c["type"] == t {
			return c["status"]
		}
	}
	return nil
}

func TestCustomVerbs(t *testing.T) {
	h := newHub(t)
	a := h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	if condition(a, "Established") != "True" || condition(a, "NamesAccepted") != "True" || fmt.Sprint(a.field("status", "storedVersions")) != "[v1]" ||
		a.field("status", "acceptedNames", "singular") != "widget" || a.field("spec", "names", "singular") != nil {
		t.Fatalf("CRD: %s", a.raw)
	}
	w := widget("w", object{"replicas": 2, "unknown": 1})
	w["status"] = object{"replicas": 1}
	a = h.must(201, h.do("POST", "a", widgets, w))
	if a.field("spec", "size") != "small" || a.field("spec", "unknown") != nil || a.field("status") != nil || a.field("metadata", "generation") != 1.0 || len(a.warnings) == 0 {
		t.Errorf("created: %v %s", a.warnings, a.raw)
	}
	h.refused(h.do("POST", "a", widgets, widget("x", object{"replicas": "two"})), 422, metav1.StatusReasonInvalid, "spec.replicas")
	h.refused(h.do("POST", "a", widgets, widget("x", object{"replicas": 11})), 422, metav1.StatusReasonInvalid, "at most ten")
	h.refused(h.do("POST", "a", widgets+"?fieldValidation=Strict", widget("x", object{"unknown": 1})), 400, metav1.StatusReasonBadRequest, "unknown")
	h.refused(h.do("POST", "a", widgets, widget("X", nil)), 422, metav1.StatusReasonInvalid, "metadata.name")
	h.refused(h.do("POST", "a", "/apis/example.com/v1/namespaces/nope/widgets", widget("x", nil)), 404, metav1.StatusReasonNotFound, `namespaces "nope"`)

	for i, patch := range []struct{ contentType, query, body string }{
		{"application/merge-patch+json", "", `{"spec":{"replicas":3}}`},
		{"application/json-patch+json", "", `[{"op":"replace","path":"/spec/replicas","value":4}]`},
		{"application/apply-patch+yaml", "?force=true&fieldManager=m", "apiVersion: example.com/v1\nkind: Widget\nspec: {replicas: 5}\n"},
	} {
		a = h.must(200, h.do("PATCH", "a", widgets+"/w"+patch.query, patch.body, "Content-Type", patch.contentType))
		if a.field("spec", "replicas") != float64(i+3) || a.field("metadata", "generation") != float64(i+2) {
			t.Errorf("%s: %s", patch.contentType, a.raw)
		}
	}
	before := h.stored("o/a/example.com/widgets/default/w")
	h.must(200, h.do("PATCH", "a", widgets+"/w?force=true&fieldManager=m", "apiVersion: example.com/v1\nkind: Widget\nspec: {replicas: 5}\n", "Content-Type", "application/apply-patch+yaml"))
	if !bytes.Equal(before, h.stored("o/a/example.com/widgets/default/w")) {
		t.Error("an apply that changes nothing made a write")
	}
	h.must(415, h.do("PATCH", "a", widgets+"/w", `{}`, "Content-Type", "application/strategic-merge-patch+json"))

	// Through the other version, which is stored as the first.
	a = h.must(200, h.do("PATCH", "a", "/apis/example.com/v2/namespaces/default/widgets/w", `{"spec":{"replicas":6}}`, "Content-Type", "application/merge-patch+json"))
	if a.field("apiVersion") != "example.com/v2" || !bytes.Contains(h.stored("o/a/example.com/widgets/default/w"), []byte(`"apiVersion":"example.com/v1"`)) {
		t.Errorf("other version: %s", a.raw)
	}
	body := a.body
	body["spec"].(object)["replicas"] = 7
	h.must(200, h.do("PUT", "a", "/apis/example.com/v2/namespaces/default/widgets/w", body))
	h.refused(h.do("PUT", "a", "/apis/example.com/v2/namespaces/default/widgets/w", body), 409, metav1.StatusReasonConflict, "modified")

	a = h.must(200, h.do("PATCH", "a", widgets+"/w/status", `{"spec":{"replicas":1},"status":{"replicas":7,"selector":"a=b"}}`, "Content-Type", "application/merge-patch+json"))
	if a.field("spec", "replicas") != 7.0 || a.field("status", "replicas") != 7.0 {
		t.Errorf("status: %s", a.raw)
	}
	a = h.must(200, h.do("GET", "a", widgets+"/w/scale", nil))
	if a.field("spec", "replicas") != 7.0 || a.field("status", "selector") != "a=b" {
		t.Errorf("scale: %s", a.raw)
	}
	h.must(200, h.do("PATCH", "a", widgets+"/w/scale", `{"spec":{"replicas":8}}`, "Content-Type", "application/merge-patch+json"))
	h.refused(h.do("PATCH", "a", widgets+"/w/scale", `{"spec":{"replicas":80}}`, "Content-Type", "application/merge-patch+json"), 422, metav1.StatusReasonInvalid, "at most ten")
	h.must(200, h.do("DELETE", "a", widgets+"/w", nil))
	h.must(201, h.do("POST", "a", widgets, widget("v", nil)))
	h.must(200, h.do("DELETE", "a", widgets, nil))
	if n := h.keys("o/a/example.com/"); n != 0 {
		t.Errorf("%d widgets after deletecollection", n)
	}
}

// Two spaces define one resource differently, and each has its own rules.
func TestCustomIsolation(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	h.must(404, h.do("POST", "b", widgets, widget("w", nil)))
	h.must(201, h.do("POST", "b", crds, crd("widgets", "Widget", widgetSpec(object{"size": object{"type": "integer", "default": 1}}))))
	for s, size := range seeds.Ordered(map[string]any{"a": "small", "b": 1.0}) {
		if a := h.must(201, h.do("POST", s, widgets, widget("w", object{"replicas": 1}))); a.field("spec", "size") != size {
			t.Errorf("space %s: %s", s, a.raw)
		}
	}
	h.refused(h.do("POST", "b", widgets, widget("x", object{"size": "small"})), 422, metav1.StatusReasonInvalid, "spec.size")
	h.must(200, h.do("DELETE", "a", widgets+"/w", nil))
	if h.stored("o/b/example.com/widgets/default/w") == nil {
		t.Error("a delete in space a reached space b")
	}
}

func TestDefinitionsRefused(t *testing.T) {
	h := newHub(t)
	good := func() object { return crd("widgets", "Widget", widgetSpec(nil)) }
	own := good()
	own["metadata"].(object)["name"] = "widgets.orrery.dev"
	own["spec"].(object)["group"] = "orrery.dev"
	h.refused(h.do("POST", "a", crds, own), 422, metav1.StatusReasonInvalid, "spec.group")
	builtin := crd("ingresses", "Ingress", widgetSpec(nil))
	builtin["metadata"] = object{"name": "ingresses.networking.k8s.io", "annotations": object{"api-approved.kubernetes.io": "unapproved, a test"}}
	builtin["spec"].(object)["group"] = "networking.k8s.io"
	h.refused(h.do("POST", "a", crds, builtin), 422, metav1.StatusReasonInvalid, "spec.names.plural")
	misnamed := good()
	misnamed["metadata"].(object)["name"] = "gadgets.example.com"
	h.refused(h.do("POST", "a", crds, misnamed), 422, metav1.StatusReasonInvalid, "metadata.name")
	h.refused(h.do("POST", "a", crds, crd("widgets", "Widget", object{"properties": object{}})), 422, metav1.StatusReasonInvalid, "type")
	h.refused(h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(object{"x": object{"type": "string", "x-kubernetes-validations": []any{object{"rule": "self +"}}}}))), 422, metav1.StatusReasonInvalid, "rule")
	if n := h.keys("o/a/apiextensions.k8s.io/"); n != 0 {
		t.Errorf("%d refused CRDs were stored", n)
	}
	h.must(201, h.do("POST", "a", crds, good()))
	a := h.do("PATCH", "a", crds+"/widgets.example.com", `{"spec":{"scope":"Cluster"}}`, "Content-Type", "application/merge-patch+json")
	h.refused(a, 422, metav1.StatusReasonInvalid, "spec.scope")
	a = h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", "application/merge-patch+json"))
	if a.field("metadata", "generation") != 1.0 {
		t.Errorf("a label raised the generation: %s", a.raw)
	}
	a = h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com/status", `{"status":{"conditions":[],"acceptedNames":null}}`, "Content-Type", "application/merge-patch+json"))
	if condition(a, "Established") != "True" || a.field("status", "acceptedNames", "plural") != "widgets" {
		t.Errorf("status by a client: %s", a.raw)
	}
}

func TestDefinitionLifecycle(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	rival := h.must(201, h.do("POST", "a", crds, crd("gizmos", "Widget", widgetSpec(nil))))
	if condition(rival, "NamesAccepted") != "False" || condition(rival, "Established") != "False" {
		t.Fatalf("rival of the same kind: %s", rival.raw)
	}
	for i := range 3 {
		w := widget(fmt.Sprint("w", i), nil)
		if i == 0 {
			w["metadata"].(object)["finalizers"] = []string{"example.com/wait"}
		}
		h.must(201, h.do("POST", "a", widgets, w))
	}
	a := h.must(200, h.do("DELETE", "a", crds+"/widgets.example.com", nil))
	if condition(a, "Terminating") != "True" {
		t.Errorf("deleted: %s", a.raw)
	}
	h.refused(h.do("POST", "a", widgets, widget("late", nil)), 403, metav1.StatusReasonForbidden, "terminating")
	h.refused(h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))), 409, metav1.StatusReasonAlreadyExists, "being deleted")
	h.caughtUp()
	if p, err := h.server.FinishCRD(h.ctx, "a", "widgets.example.com"); p != write.More || err != nil {
		t.Fatalf("finish: %v, %v", p, err)
	}
	if p, err := h.server.FinishCRD(h.ctx, "a", "widgets.example.com"); p != write.Waiting || err != nil {
		t.Fatalf("finish: %v, %v", p, err)
	}
	h.must(200, h.do("PATCH", "a", widgets+"/w0", `{"metadata":{"finalizers":[]}}`, "Content-Type", "application/merge-patch+json"))
	h.finish(func() (progress, error) { return h.server.FinishCRD(h.ctx, "a", "widgets.example.com") })
	if h.stored("o/a/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com") != nil || h.keys("o/a/example.com/widgets/") != 0 {
		t.Error("the CRD or its objects are still there")
	}
	if err := h.server.SettleNames(h.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	h.must(201, h.do("POST", "a", "/apis/example.com/v1/namespaces/default/gizmos", widget("g", nil)))
	h.must(200, h.do("DELETE", "a", crds, nil))
	h.finish(func() (progress, error) { return h.server.FinishCRD(h.ctx, "a", "gizmos.example.com") })
}

// TestDefinitionApply checks that an apply of an unchanged CRD writes nothing, and that an update can
// change its schema.
func TestDefinitionApply(t *testing.T) {
	h := newHub(t)
	apply := func(c object) answer {
		return h.do("PATCH", "a", crds+"/widgets.example.com?fieldManager=m", c, "Content-Type", "application/apply-patch+yaml")
	}
	one := h.must(201, apply(crd("widgets", "Widget", widgetSpec(nil))))
	two := h.must(200, apply(crd("widgets", "Widget", widgetSpec(nil))))
	if one.field("metadata", "resourceVersion") != two.field("metadata", "resourceVersion") || condition(one, "Established") != "True" {
		t.Errorf("applied again: %s", two.raw)
	}
	h.must(201, h.do("POST", "a", widgets, widget("w", object{"color": "red"})))
	if a := h.must(200, h.do("PATCH", "a", widgets+"/w", `{"spec":{"color":"red"}}`, "Content-Type", "application/merge-patch+json")); a.field("spec", "color") != nil {
		t.Errorf("a field that is not defined was kept: %s", a.raw)
	}
	two = h.must(200, apply(crd("widgets", "Widget", widgetSpec(object{"color": object{"type": "string"}}))))
	if two.field("metadata", "generation") != 2.0 {
		t.Errorf("changed schema: %s", two.raw)
	}
	if a := h.must(200, h.do("PATCH", "a", widgets+"/w", `{"spec":{"color":"red"}}`, "Content-Type", "application/merge-patch+json")); a.field("spec", "color") != "red" {
		t.Errorf("a field that was added is dropped: %s", a.raw)
	}
	h.must(200, h.do("PUT", "a", crds+"/widgets.example.com", two.body))
}
