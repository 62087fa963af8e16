package demo

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"orrery.dev/orrery/apis/v1alpha1"
)

func object(fields map[string]any) *unstructured.Unstructured {
	o := newObject("v1", "ConfigMap", "store", "web")
	maps.Copy(o.Object, fields)
	return o
}

func TestCompare(t *testing.T) {
	source := object(map[string]any{
		"spec":   map[string]any{"replicas": int64(3), "ports": []any{map[string]any{"port": int64(80)}}},
		"status": map[string]any{"ready": true},
	})
	source.SetLabels(map[string]string{"app": "web"})
	like := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := source.DeepCopy()
		change(o)
		return o
	}
	set := func(v any, path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, v, path...) }
	}
	for _, c := range []struct {
		name   string
		object *unstructured.Unstructured
		want   string
	}{
		{"the same", like(func(*unstructured.Unstructured) {}), ""},
		{"more fields, as defaults are", like(set("Always", "spec", "policy")), ""},
		{"more in an item", like(set([]any{map[string]any{"port": int64(80), "protocol": "TCP"}}, "spec", "ports")), ""},
		{"another status", like(set(false, "status", "ready")), ""},
		{"another value", like(set(int64(0), "spec", "replicas")), "spec.replicas"},
		{"another item", like(set([]any{map[string]any{"port": int64(81)}}, "spec", "ports")), "spec.ports[0].port"},
		{"one more item", like(set([]any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(81)}}, "spec", "ports")), "spec.ports"},
		{"no spec", like(func(o *unstructured.Unstructured) { delete(o.Object, "spec") }), "spec"},
		{"another label", like(func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "x"}) }), "label app"},
	} {
		err := compare(source, c.object)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), " "+c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// deployment returns a Deployment with a number of ready replicas.
func deployment(ready int64) *unstructured.Unstructured {
	o := object(map[string]any{"status": map[string]any{"readyReplicas": ready, "updatedReplicas": ready, "availableReplicas": ready}})
	o.SetKind("Deployment")
	return o
}

func TestCheckStatus(t *testing.T) {
	ready := object(map[string]any{"status": map[string]any{"ready": true}})
	none := object(nil)
	empty := object(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{}}})
	for _, c := range []struct {
		name   string
		source *unstructured.Unstructured
		copies []*unstructured.Unstructured
		ok     bool
	}{
		{"at one location", ready, []*unstructured.Unstructured{ready}, true},
		{"not back yet", none, []*unstructured.Unstructured{ready}, false},
		{"at no location", none, nil, true},
		{"not cleared", ready, nil, false},
		{"not cleared at two", ready, []*unstructured.Unstructured{ready, ready}, false},
		{"empty is none", empty, nil, true},
		{"the least of two", deployment(2), []*unstructured.Unstructured{deployment(2), deployment(3)}, true},
		{"the most of two", deployment(3), []*unstructured.Unstructured{deployment(2), deployment(3)}, false},
		{"not ready at one", deployment(3), []*unstructured.Unstructured{deployment(3), deployment(0)}, false},
	} {
		if err := checkStatus(c.source, c.copies); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestProven: ownership metadata that a controller copied to another object proves nothing.
func TestProven(t *testing.T) {
	made := object(nil)
	made.SetLabels(map[string]string{v1alpha1.SpaceLabel: shopSpace})
	made.SetAnnotations(map[string]string{v1alpha1.SourceKindAnnotation: "ConfigMap", v1alpha1.SourceNamespaceAnnotation: "store", v1alpha1.SourceNameAnnotation: "web"})
	if !proven(made) {
		t.Error("an object with its own marks is not proven")
	}
	copied := made.DeepCopy()
	copied.SetKind("EndpointSlice")
	if proven(copied) {
		t.Error("copied marks count")
	}
}
