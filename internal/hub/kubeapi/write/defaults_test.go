package write_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
)

// defaultBomb is the schema of a list whose items each get some KB by their defaults.
func defaultBomb() object {
	items := make([]any, 100)
	for i := range items {
		items[i] = object{}
	}
	text := object{"type": "string", "default": strings.Repeat("x", 100)}
	return object{"type": "array", "items": object{"type": "object", "properties": object{"a": object{
		"type": "array", "default": items, "items": object{"type": "object", "properties": object{"b": text}}}}}}
}

// emptyItems is a list of objects.
func emptyItems(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = object{}
	}
	return all
}

// TestDefaultsAreLimited: an object that would become too large by its defaults is refused,
// however it is written. One that is stored already, without them, can be read, changed and deleted.
func TestDefaultsAreLimited(t *testing.T) {
	if schemacost.MaxDefaults != write.DefaultObjectBytes {
		t.Errorf("defaults may add %d bytes, and an object may have %d", schemacost.MaxDefaults, write.DefaultObjectBytes)
	}
	h := newHub(t)
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(object{"l": object{"type": "array", "items": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}))))
	h.must(201, h.do("POST", "a", widgets, widget("before", object{"l": emptyItems(5000)})))
	h.must(201, h.do("POST", "a", widgets, widget("small", object{"l": emptyItems(1)})))
	patch := object{"spec": object{"versions": crd("widgets", "Widget", widgetSpec(object{"l": defaultBomb()}))["spec"].(object)["versions"]}}
	h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com", patch, "Content-Type", merge))

	const detail = "defaults of CRD \"widgets.example.com\" would add more than"
	refused := func(a answer) {
		t.Helper()
		h.refused(a, 413, metav1.StatusReasonRequestEntityTooLarge, detail)
	}
	large := widget("large", object{"l": emptyItems(5000)})
	refused(h.do("POST", "a", widgets, large))
	refused(h.do("POST", "a", widgets+"?dryRun=All", large))
	refused(h.do("PATCH", "a", widgets+"/large?fieldManager=x", large, "Content-Type", apply))
	refused(h.do("PATCH", "a", widgets+"/small", object{"spec": object{"l": emptyItems(5000)}}, "Content-Type", merge))
	refused(h.do("PATCH", "a", widgets+"/small?fieldManager=x&force=true", widget("small", object{"l": emptyItems(5000)}), "Content-Type", apply))

	a := h.must(200, h.do("PATCH", "a", widgets+"/small", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", merge))
	if l, _ := a.field("spec", "l").([]any); len(l) != 1 || len(l[0].(object)["a"].([]any)) != 100 {
		t.Errorf("a small object has no defaults: %.200s", a.raw)
	}
	a = h.must(200, h.do("PATCH", "a", widgets+"/before", `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/f"]}}`, "Content-Type", merge))
	if l, _ := a.field("spec", "l").([]any); len(l) != 5000 || len(l[0].(object)) != 0 {
		t.Errorf("a stored object has defaults: %.200s", a.raw)
	}
	h.must(200, h.do("PATCH", "a", widgets+"/before", `{"metadata":{"finalizers":null}}`, "Content-Type", merge))
	h.must(200, h.do("DELETE", "a", widgets+"/before", nil))
}

// TestDeletedListsAreLimited: the objects that are deleted at once do not take all memory by
// defaults that their CRD has got since they were stored.
func TestDeletedListsAreLimited(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	for i := range 70 {
		h.must(201, h.do("POST", "a", widgets, widget(fmt.Sprintf("w%d", i), object{})))
	}
	text := object{"type": "string", "default": strings.Repeat("x", 1<<20)}
	patch := object{"spec": object{"versions": crd("widgets", "Widget", widgetSpec(object{"text": text}))["spec"].(object)["versions"].([]any)[:1]}}
	h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com", patch, "Content-Type", "application/merge-patch+json"))
	h.must(200, h.do("PATCH", "a", widgets+"/w0", `{"spec":{"size":"large"}}`, "Content-Type", "application/merge-patch+json"))
	h.refused(h.do("DELETE", "a", widgets, nil), 413, metav1.StatusReasonRequestEntityTooLarge, "delete fewer at once")
	h.must(200, h.do("DELETE", "a", widgets+"?limit=20", nil))
}
