package custom

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/test/support/cost"
)

// FuzzDefinitions reads and validates an object of a kind with a schema, as the hub does when it is written.
// Reading takes memory in proportion to the object and the defaults that it may have. Validation costs no
// more than its limits, and takes memory in proportion to what it has cost. The schema may have been stored
// by an older hub, so it was not checked when it was written.
func FuzzDefinitions(f *testing.F) {
	rule := func(text string) string {
		return `{type: object, properties: {l: {type: array, items: {type: integer}}, s: {type: string}}, x-kubernetes-validations: [{rule: "` + text + `"}]}`
	}
	numbers := `"l":` + repeat(200, "1")
	f.Add(nested, numbers)
	f.Add(defaultBomb(), `"l":`+repeat(5000, "{}"))
	for _, items := range costly() {
		f.Add(`{type: object, properties: {l: {type: array, items: `+items+`}}}`, `"l":`+repeat(2000, "1"))
		f.Add(`{type: object, properties: {l: {type: array, items: `+items+`}}}`, `"l":`+repeat(2000, "{}"))
	}
	f.Add(rule("[0]"+strings.Repeat(".map(a, [a, a])", 20)+".all(a, a == a)"), `"s":"x"`)
	f.Add(rule("[0]"+strings.Repeat(".map(a, [a, a])", 40)+".all(a, a == a)"), `"s":"x"`)
	f.Add(rule("self.l.map(x, self) == self.l.map(x, self)"), numbers)
	f.Add(rule("self.l.all(a, self.l.all(b, self.l.all(c, a + b == c)))"), numbers)
	f.Add(rule("self.l.exists(a, self.s.matches('^(x+)+$'))"), `"s":"`+strings.Repeat("x", 5000)+`!",`+numbers)
	f.Add(`{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}`, numbers)
	f.Add(`{type: object, x-kubernetes-preserve-unknown-fields: true}`, `"a":`+strings.Repeat(`{"a":[`, 60)+strings.Repeat("]}", 60))
	f.Fuzz(func(t *testing.T, schema, fields string) {
		crd := readCRD(t, "widgets")
		crd.Spec.Versions = crd.Spec.Versions[:1]
		v := &crd.Spec.Versions[0]
		v.Schema.OpenAPIV3Schema, v.Storage, v.Subresources, v.SelectableFields = &apiextensionsv1.JSONSchemaProps{}, true, nil, nil
		if len(schema)+len(fields) > 1<<17 || yaml.UnmarshalStrict([]byte(schema), v.Schema.OpenAPIV3Schema) != nil {
			return
		}
		compiler := newTestCompiler(t)
		if compiler.Check(t.Context(), crd) != nil {
			return
		}
		k := compile(t, compiler, crd)[0]
		body := widget(fields)
		var u *unstructured.Unstructured
		var err error
		used := cost.Allocated(func() { u, err = decode(t, k, apiruntime.ContentTypeJSON, body, false) })
		if used > 64<<20+uint64(200*len(body)) {
			t.Fatalf("an object of %d bytes takes %d bytes to read", len(body), used)
		}
		if err != nil || u == nil || k.Custom.CheckDefaults(u) != nil {
			return
		}
		u.SetNamespace("default")
		costs, err := definitionOf(k).artefacts().costs()
		if err != nil {
			t.Fatal(err)
		}
		steps, err := costs[v.Name].Steps(t.Context(), u.Object, schemacost.MaxSteps)
		if err != nil {
			t.Fatal(err)
		}
		ctx := request.WithNamespace(schemacost.WithBudget(t.Context()), "default")
		refused := 0
		used = cost.Allocated(func() { refused = len(k.Custom.Strategy().Validate(ctx, u)) })
		spent := int64(0)
		schemacost.BudgetOf(ctx).Spend(func(left int64) int64 { spent = schemacost.MaxRuleCost - left; return left })
		if used > 64<<20+2000*uint64(steps+int(spent)) {
			t.Errorf("%d steps and rules of cost %d take %d bytes", steps, spent, used)
		}
		// The last call of a rule may cost more than the rest of the budget.
		if (steps > schemacost.MaxSteps || spent > schemacost.MaxRuleCost) && refused == 0 {
			t.Errorf("an object of %d steps is accepted, with rules of cost %d", steps, spent)
		}
	})
}
