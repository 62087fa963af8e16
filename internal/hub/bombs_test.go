package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// definitionOf is a CRD of a resource with a schema.
func definitionOf(t *testing.T, resource, schema string) string {
	t.Helper()
	crd := widgetDefinition()
	crd.SetName(resource + ".example.org")
	spec := crd.Object["spec"].(map[string]any)
	spec["names"] = map[string]any{"plural": resource, "kind": strings.ToUpper(resource[:1]) + resource[1:]}
	spec["versions"] = []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": json.RawMessage(schema)}}}
	text, err := json.Marshal(crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDefinitionBombs: definitions and objects of a tenant that would take all that the
// hub has are refused, or cost their space alone; another goes on.
func TestDefinitionBombs(t *testing.T) {
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	jane, neighbour := r.as("jane"), r.as("admin", "system:masters")
	const crds, widgets = "POST /spaces/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST /spaces/a/apis/example.org/v1/namespaces/default/opens"
	nested := func(levels int, begin, inner, end string) string {
		return strings.Repeat(begin, levels) + inner + strings.Repeat(end, levels)
	}
	rules := make([]string, 200)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{"rule":"self.all(a, self.all(b, self.all(c, a == b || b == c || a != 'x%d')))"}`, i)
	}
	for _, c := range []struct {
		what, request, body string
		code                int
	}{
		{"an open schema", crds, definitionOf(t, "opens", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`), http.StatusCreated},
		{"rules without an end", crds, definitionOf(t, "rules", `{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[`+strings.Join(rules, ",")+`]}}}`), http.StatusUnprocessableEntity},
		{"a deep schema", crds, definitionOf(t, "deeps", nested(2000, `{"type":"object","properties":{"a":`, `{"type":"string"}`, `}}`)), 0},
		{"a deep schema of lists", crds, definitionOf(t, "deepers", nested(1000, `{"type":"array","items":`, `{"type":"string"}`, `}`)), 0},
		{"a pattern", crds, definitionOf(t, "patterns", `{"type":"object","properties":{"a":{"type":"string","pattern":"((a{1,1000}){1,1000}){1,1000}"}}}`), http.StatusUnprocessableEntity},
		{"a reference to itself", crds, definitionOf(t, "selves", `{"type":"object","properties":{"a":{"$ref":"#"}}}`), http.StatusUnprocessableEntity},
		{"a large one", crds, definitionOf(t, "larges", `{"type":"object","description":"`+strings.Repeat("x", 4<<20)+`"}`), http.StatusRequestEntityTooLarge},
		{"a deep object", widgets, `{"apiVersion":"example.org/v1","kind":"Opens","metadata":{"name":"deep"},"a":` + nested(200_000, "[", "", "]") + `}`, 0},
		{"many fields", "PATCH /spaces/a/apis/example.org/v1/namespaces/default/opens/many?fieldManager=x", `{"apiVersion":"example.org/v1","kind":"Opens","metadata":{"name":"many"},"a":{` + strings.TrimSuffix(strings.Repeat(`"a":{},`, 100_000), ",") + `}}`, 0},
	} {
		header := []string{}
		if strings.HasPrefix(c.request, "PATCH") {
			header = []string{contentType, applyYAML}
		}
		code, body := jane.send(c.request, c.body, header...)
		if c.code != 0 && code != c.code || code >= 500 && code != http.StatusInsufficientStorage {
			t.Errorf("%s: %d %.300s", c.what, code, body)
		}
		if code, body := neighbour.send("GET /spaces/b/api/v1/configmaps", ""); code != http.StatusOK || !strings.Contains(body, treasure) {
			t.Errorf("behind %s the other space answers %d %.200s", c.what, code, body)
		}
	}
	if code, body := jane.send("GET /spaces/a/apis", ""); code != http.StatusOK {
		t.Errorf("their own space answers %d %.200s", code, body)
	}
}
