package write_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRulesThatGrow refuses CRDs whose rules, or the messages of these, compare what is small in
// memory and has a million parts. Accepted, each would make an object of 60 bytes take seconds.
func TestRulesThatGrow(t *testing.T) {
	h := newHub(t)
	bomb := "[0]" + strings.Repeat(".map(a, [a, a])", 24) + ".all(a, a == a)"
	nested := func(rule object) object {
		return object{"x": object{"type": "object", "properties": object{"y": object{"type": "string", "maxLength": 9, "x-kubernetes-validations": []any{rule}}}}}
	}
	for _, rule := range []object{
		{"rule": bomb},
		{"rule": "self != ''", "messageExpression": bomb + " ? 'a' : 'b'"},
	} {
		h.refused(h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nested(rule)))), 422, metav1.StatusReasonInvalid, "the same part may be")
	}
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	h.refused(h.do("PATCH", "a", crds+"/widgets.example.com", object{"spec": object{"versions": crd("widgets", "Widget", widgetSpec(nested(object{"rule": bomb})))["spec"].(object)["versions"]}}, "Content-Type", "application/merge-patch+json"), 422, metav1.StatusReasonInvalid, "the same part may be")
}
