package schemacost_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// read is a schema, given as YAML, in the forms in which it is used.
func read(t testing.TB, text string) (*structuralschema.Structural, validation.SchemaValidator) {
	t.Helper()
	v1, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), v1); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return structural, validator
}

func value(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := utiljson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// structuralOf is the structural form of a schema.
func structuralOf(internal *apiextensions.JSONSchemaProps) (*structuralschema.Structural, error) {
	return structuralschema.NewStructural(internal)
}

// listed joins what is made n times.
func listed(n int, each func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = each(i)
	}
	return strings.Join(all, ",")
}

// BenchmarkSteps shows what a step takes (ns/step), by what it is for.
func BenchmarkSteps(b *testing.B) {
	same := func(text string) func(int) string { return func(int) string { return text } }
	for name, c := range map[string]struct{ items, list string }{
		"values":   {`{type: integer}`, listed(10000, same("1"))},
		"texts":    {`{type: string}`, listed(10000, same(`"abc"`))},
		"branches": {`{type: integer, anyOf: [` + listed(100, func(i int) string { return fmt.Sprintf("{minimum: %d}", i) }) + `]}`, listed(1000, same("1"))},
		"all":      {`{type: integer, allOf: [` + listed(100, func(i int) string { return fmt.Sprintf("{maximum: %d}", i+10) }) + `]}`, listed(1000, same("1"))},
		"enum":     {`{type: string, enum: [` + listed(1000, func(i int) string { return fmt.Sprintf("v%d", i) }) + `]}`, listed(1000, same(`"v999"`))},
		"wrong":    {`{type: string, enum: [` + listed(1000, func(i int) string { return fmt.Sprintf("v%d", i) }) + `]}`, listed(1000, same(`"w"`))},
		"types":    {`{type: string}`, listed(10000, same(`1`))},
		"fields":   {`{type: object, properties: {` + listed(1000, func(i int) string { return fmt.Sprintf("f%d: {type: string}", i) }) + `}}`, listed(1000, same(`{}`))},
		"required": {`{type: object, required: [` + listed(1000, func(i int) string { return fmt.Sprintf("f%d", i) }) + `]}`, listed(100, same(`{}`))},
		"pattern":  {`{type: string, pattern: "^(a?){500}$"}`, listed(10, same(`"`+strings.Repeat("a", 1000)+`b"`))},
		"base64":   {`{type: string, pattern: "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==)?$"}`, listed(10, same(`"`+strings.Repeat("abcd", 10000)+`"`))},
		"names":    {`{type: string, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}`, listed(10000, same(`"some-name-of-something"`))},
		"times":    {`{type: string, format: date-time}`, listed(10000, same(`"2026-11-28T10:00:00Z"`))},
	} {
		b.Run(name, func(b *testing.B) {
			structural, validator := read(b, `{type: object, properties: {l: {type: array, items: `+c.items+`}}}`)
			object := value(b, `{"l":[`+c.list+`]}`)
			steps, err := schemacost.New(structural).Steps(context.Background(), object, 1<<40)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				validation.ValidateCustomResource(nil, object, validator)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(steps), "ns/step")
		})
	}
}
