package write_test

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDefinitionConditions checks the conditions for requests of a CRD that spaces do not support.
func TestDefinitionConditions(t *testing.T) {
	h := newHub(t)
	webhook := crd("widgets", "Widget", widgetSpec(nil))
	webhook["spec"].(object)["conversion"] = object{"strategy": "Webhook", "webhook": object{
		"conversionReviewVersions": []string{"v1"}, "clientConfig": object{"url": "https://convert.invalid/"}}}
	a := h.must(201, h.do("POST", "a", crds, webhook))
	if condition(a, "ConversionInert") != "True" || condition(a, "Established") != "True" || condition(a, "KubernetesAPIApprovalPolicyConformant") != nil {
		t.Errorf("webhook: %s", a.raw)
	}
	a = h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`, "Content-Type", "application/merge-patch+json"))
	if condition(a, "ConversionInert") != nil {
		t.Errorf("no webhook any more: %s", a.raw)
	}
	for i, test := range []struct {
		annotation string
		status     any
	}{{"https://github.com/kubernetes/kubernetes/pull/1", "True"}, {"unapproved, an experiment", "False"}} {
		protected := crd("widgets", "Widget", widgetSpec(nil))
		group := []string{"one.k8s.io", "two.k8s.io"}[i]
		protected["metadata"] = object{"name": "widgets." + group, "annotations": object{"api-approved.kubernetes.io": test.annotation}}
		protected["spec"].(object)["group"] = group
		a := h.must(201, h.do("POST", "a", crds, protected))
		if got := condition(a, "KubernetesAPIApprovalPolicyConformant"); got != test.status {
			t.Errorf("%s: %v in %s", test.annotation, got, a.raw)
		}
	}
}

// TestDefinitionColumns: columns that could take very much for one object are refused, at create
// and at update, with a way out. The filters that controllers use for their conditions are not.
func TestDefinitionColumns(t *testing.T) {
	h := newHub(t)
	with := func(path string) object {
		widgets := crd("widgets", "Widget", widgetSpec(nil))
		version := widgets["spec"].(object)["versions"].([]any)[0].(object)
		version["additionalPrinterColumns"] = []any{object{"name": "Ready", "type": "string", "jsonPath": path}}
		return widgets
	}
	const union = ".spec['a','a']['a','a']"
	refused := `.additionalPrinterColumns[0].jsonPath: Invalid value: \".spec['a','a']['a','a']\": a union`
	if a := h.must(422, h.do("POST", "a", crds, with(union))); !strings.Contains(string(a.raw), refused) {
		t.Errorf("create: %s", a.raw)
	}
	h.must(201, h.do("POST", "a", crds, with(`.status.conditions[?(@.type=="Ready")].status`)))
	patch := object{"spec": object{"versions": with(union)["spec"].(object)["versions"]}}
	if a := h.must(422, h.do("PATCH", "a", crds+"/widgets.example.com", patch, "Content-Type", "application/merge-patch+json")); !strings.Contains(string(a.raw), refused) {
		t.Errorf("update: %s", a.raw)
	}
}

// TestDefinitionSteps: a schema that takes very much is refused by what it is, and an object by what
// it takes with its schema, each with a way out.
func TestDefinitionSteps(t *testing.T) {
	h := newHub(t)
	branches := func(n int) []any {
		all := make([]any, n)
		for i := range all {
			all[i] = object{"minimum": i}
		}
		return all
	}
	list := func(items, other object) object {
		l := object{"type": "array", "items": items}
		maps.Copy(l, other)
		return crd("widgets", "Widget", widgetSpec(object{"l": l}))
	}
	numbers := make([]any, 3000)
	for i := range numbers {
		numbers[i] = 1
	}
	invalid := func(a answer, detail string) {
		t.Helper()
		h.refused(a, 422, metav1.StatusReasonInvalid, detail)
	}
	invalid(h.do("POST", "a", crds, list(object{"type": "integer", "anyOf": branches(15_000)}, nil)), "branches of anyOf")
	costly := object{"type": "integer", "anyOf": branches(1000)}
	invalid(h.do("POST", "a", crds, list(costly, object{"default": numbers})), "give them fewer values")
	h.must(201, h.do("POST", "a", crds, list(costly, nil)))
	h.must(201, h.do("POST", "a", widgets, widget("few", object{"l": numbers[:10]})))
	invalid(h.do("POST", "a", widgets, widget("many", object{"l": numbers})), "give it fewer items, or the schema fewer branches")
	invalid(h.do("PATCH", "a", widgets+"/few", object{"spec": object{"l": numbers}}, "Content-Type", "application/merge-patch+json"), "give it fewer items")
}
