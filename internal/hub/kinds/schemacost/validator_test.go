package schemacost_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/test/support/cost"
	"orrery.dev/orrery/test/support/seeds"
)

// bounded is the validator of a schema, given as YAML.
func bounded(t testing.TB, text string) schemacost.Validator {
	t.Helper()
	v1, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), v1); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	v, err := schemacost.NewValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// listing is errors as texts, in an order of their own.
func listing(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all
}

const strict = `{type: object, required: [a], properties: {
  a: {type: string, enum: [x, z], maxLength: 3}, n: {type: integer, nullable: true, minimum: 2}, in: {type: object, required: [b], properties: {b: {type: integer}, a: {type: string}}},
  list: {type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object, required: [a], properties: {a: {type: string, pattern: "^x$"}, in: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}},
  map: {type: object, maxProperties: 1, additionalProperties: {type: object, required: [k], properties: {k: {type: string}}}},
  k: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}], not: {required: [c]}},
  e: {type: array, items: {type: integer}, allOf: [{items: {minimum: 1}}, {minItems: 1}]}}}`

// equalsValidation compares the validator with the library's.
func equalsValidation(t *testing.T, object, old any) {
	t.Helper()
	structural, library := read(t, strict)
	mine := bounded(t, strict)
	got := listing(validation.ValidateCustomResource(nil, object, mine))
	if want := listing(validation.ValidateCustomResource(nil, object, library)); !slices.Equal(got, want) && len(want) < schemacost.MaxErrors {
		t.Fatalf("got %q, want %q of %v", got, want, object)
	}
	correlated := func() validation.ValidationOption {
		return validation.WithRatcheting(common.NewCorrelatedObject(object, old, &model.Structural{Structural: structural}))
	}
	got = listing(validation.ValidateCustomResourceUpdate(nil, object, old, mine, correlated()))
	if want := listing(validation.ValidateCustomResourceUpdate(nil, object, old, library, correlated())); !slices.Equal(got, want) && len(want) < schemacost.MaxErrors {
		t.Fatalf("got %q, want %q of %v after %v", got, want, object, old)
	}
}

// TestValidatorIsTheLibrarys: the validator finds what the library finds, with and without an old
// object.
func TestValidatorIsTheLibrarys(t *testing.T) {
	r := seeds.Rand(t, 2)
	for range seeds.Count(t, 1000) {
		object, ok := draw(r, 4).(map[string]any)
		if !ok {
			continue
		}
		old := map[string]any{}
		for name, inner := range object {
			if r.IntN(2) == 0 {
				old[name] = inner
			}
		}
		equalsValidation(t, object, old)
	}
}

// FuzzValidator is TestValidatorIsTheLibrarys for objects of the fuzzer.
func FuzzValidator(f *testing.F) {
	for _, c := range [][2]string{
		{`{"a":"x"}`, `{}`}, {`{"a":"y","list":[{},{"a":"x"},{"a":"z"}],"e":[0]}`, `{"a":"y","list":[{"a":"x"},{"a":"z"}],"e":[0]}`},
		{`{"map":{"x":{},"y":{}},"k":{"a":"1","b":"2","c":1}}`, `{"map":{"x":{}}}`}, {`{"kind":1,"apiVersion":2}`, `{"kind":1}`},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, text, before string) {
		var object, old map[string]any
		if utiljson.Unmarshal([]byte(text), &object) != nil || utiljson.Unmarshal([]byte(before), &old) != nil {
			return
		}
		equalsValidation(t, object, old)
	})
}

// TestErrorsAreBounded: a validation ends after some errors, also of an update that changes
// nothing of what is wrong, but it finds the error of what has changed.
func TestErrorsAreBounded(t *testing.T) {
	const schema = `{type: object, properties: {a: {type: array, items: {type: string}}, b: {type: string}}}`
	structural, _ := read(t, schema)
	v := bounded(t, schema)
	wrong := value(t, `[`+listed(20000, func(int) string { return "1" })+`]`)
	errs := validation.ValidateCustomResource(nil, map[string]any{"a": wrong}, v)
	if len(errs) != schemacost.MaxErrors+1 || !strings.Contains(errs[len(errs)-1].Detail, "more errors") {
		t.Errorf("%d errors, the last is %v", len(errs), errs[len(errs)-1])
	}
	update := func(object, old map[string]any) []string {
		correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: structural})
		return listing(validation.ValidateCustomResourceUpdate(nil, object, old, v, validation.WithRatcheting(correlated)))
	}
	old := map[string]any{"a": wrong, "b": "x"}
	if errs := update(map[string]any{"a": wrong, "b": "y"}, old); len(errs) != 0 {
		t.Errorf("what did not change is refused: %q", errs)
	}
	if errs := update(map[string]any{"a": wrong, "b": int64(1)}, old); len(errs) != 1 || !strings.HasPrefix(errs[0], "b: ") {
		t.Errorf("got %q", errs)
	}
}

// TestStepsBoundWork: what a validation allocates is in proportion to the steps that were counted.
func TestStepsBoundWork(t *testing.T) {
	r := seeds.Rand(t, 3)
	for range seeds.Count(t, 300) {
		boundedWork(t, drawSchema(r, 3), draw(r, 4))
	}
}

// FuzzSteps is TestStepsBoundWork for schemas and objects of the fuzzer.
func FuzzSteps(f *testing.F) {
	many := func(n int, text string) string { return listed(n, func(int) string { return text }) }
	f.Add(strict, `{"a":"y","list":[{},{"a":"x"},{"a":"z"}],"e":[0]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {type: integer, anyOf: [`+many(200, "{minimum: 3}")+`]}}}}`, `{"a":[`+many(50, "1")+`]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {type: string, enum: [`+listed(500, func(i int) string { return fmt.Sprint("v", i) })+`]}}}}`, `{"a":[`+many(50, `"w"`)+`]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {type: object, properties: {`+listed(500, func(i int) string { return fmt.Sprintf("v%d: {type: string}", i) })+`}}}}}`, `{"a":[`+many(50, `{}`)+`]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {type: integer}, allOf: [{items: {minimum: 3}}]}}}`, `{"a":[`+many(500, `1`)+`]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {type: integer, anyOf: [`+many(1000, "{minimum: 3}")+`]}}}}`, `{"a":[`+many(3000, "1")+`]}`)
	f.Add(`{type: object, properties: {a: {type: array, items: {enum: [`+many(20_000, "1")+`]}}}}`, `{"a":[`+many(3000, "2")+`]}`)
	f.Add(`{type: object, required: [`+listed(200, func(i int) string { return fmt.Sprint("v", i) })+`]}`, `{}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		var object any
		if len(schema)+len(text) > 1<<16 || utiljson.Unmarshal([]byte(text), &object) != nil {
			return
		}
		boundedWork(t, schema, object)
	})
}

// boundedWork validates an object, and compares what that takes with the steps.
func boundedWork(t *testing.T, schema string, object any) {
	t.Helper()
	v1, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if yaml.Unmarshal([]byte(schema), v1) != nil || apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil) != nil || internal.Ref != nil {
		return
	}
	structural, err := structuralOf(internal)
	if err != nil {
		return
	}
	steps, err := schemacost.New(structural).Steps(t.Context(), object, schemacost.MaxSteps)
	if err != nil || steps > schemacost.MaxSteps {
		return
	}
	v, err := schemacost.NewValidator(internal)
	if err != nil {
		return
	}
	if used := cost.Allocated(func() { validation.ValidateCustomResource(nil, object, v) }); used > uint64(steps)*2000+1<<20 {
		t.Fatalf("%d steps took %d bytes of %v by %s", steps, used, object, schema)
	}
}

// drawSchema is a structural schema of the fields that draw draws.
func drawSchema(r *rand.Rand, depth int) string {
	value := func() string {
		return []string{`minimum: 3`, `enum: [x, 1]`, `pattern: "^(a|x)+$"`, `maxLength: 0`, `minItems: 1`, `anyOf: [{minimum: 3}, {pattern: "^y"}]`, `not: {required: [a]}`, `required: [a, b]`}[r.IntN(8)]
	}
	if depth == 0 || r.IntN(3) == 0 {
		return `{type: ` + []string{"string", "integer", "boolean"}[r.IntN(3)] + `, ` + value() + `}`
	}
	if r.IntN(3) == 0 {
		return `{type: array, items: ` + drawSchema(r, depth-1) + `, ` + value() + `}`
	}
	return `{type: object, properties: {a: ` + drawSchema(r, depth-1) + `, b: ` + drawSchema(r, depth-1) + `, in: ` + drawSchema(r, depth-1) + `}, ` + value() + `}`
}
