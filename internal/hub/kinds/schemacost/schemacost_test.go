package schemacost_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
	"orrery.dev/orrery/test/support/cost"
	"orrery.dev/orrery/test/support/seeds"
)

const nested = `{type: object, default: {}, properties: {
  a: {type: string, default: text}, n: {type: string, nullable: true, default: null}, m: {type: string, nullable: true, default: some},
  in: {type: object, default: {a: x}, properties: {a: {type: string}, b: {type: object, default: {}, properties: {c: {type: integer, default: 3}}}}},
  list: {type: array, default: [{}, {a: y}], items: {type: object, default: {a: z}, properties: {a: {type: string, default: w}, deep: {type: array, default: [{}, {}], items: {type: object, properties: {e: {type: string, default: ee}}}}}}},
  map: {type: object, additionalProperties: {type: object, default: {k: v}, properties: {k: {type: string, default: kk}, l: {type: string, default: ll}}}},
  free: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`

// equalsLibrary compares what is counted with what the library of Kubernetes adds.
func equalsLibrary(t *testing.T, schema string, object any) {
	t.Helper()
	structural, _ := read(t, schema)
	costs := schemacost.New(structural)
	counted := costs.Added(object, 1<<30)
	before := schemacost.Size(object)
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	pruned := schemacost.Size(object)
	structuraldefaulting.Default(object, structural)
	// A null is smaller than any value in its place, and may be counted as nothing.
	if added := schemacost.Size(object) - pruned; counted < added || counted > added+before {
		t.Fatalf("counted %d, added %d to %v", counted, added, object)
	}
	if again := costs.Added(object, 1<<30); again != 0 {
		t.Fatalf("with all defaults, %d more are counted in %v", again, object)
	}
}

// draw is an object of the fields of a schema.
func draw(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case depth == 0 || n < 2:
		return []any{nil, "x", int64(1), map[string]any{}, []any{}}[r.IntN(5)]
	case n < 6:
		object := map[string]any{}
		for _, name := range []string{"a", "n", "m", "in", "b", "c", "list", "deep", "e", "map", "k", "free"} {
			if r.IntN(3) == 0 {
				object[name] = draw(r, depth-1)
			}
		}
		return object
	}
	list := make([]any, r.IntN(4))
	for i := range list {
		list[i] = draw(r, depth-1)
	}
	return list
}

// TestAddedEqualsDefaulting: what is counted before is what defaulting adds.
func TestAddedEqualsDefaulting(t *testing.T) {
	r := seeds.Rand(t, 1)
	for range seeds.Count(t, 2000) {
		equalsLibrary(t, nested, draw(r, 5))
	}
}

// FuzzAdded is TestAddedEqualsDefaulting for objects of the fuzzer.
func FuzzAdded(f *testing.F) {
	for _, object := range []string{`{}`, `{"a":null,"n":null,"m":null}`, `{"list":[{},null,{"deep":[{},null]}],"map":{"x":{},"y":null}}`, `{"in":null}`, `[]`, `null`, `{"free":{"a":null}}`} {
		f.Add(object)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object any
		if utiljson.Unmarshal([]byte(text), &object) != nil {
			return
		}
		equalsLibrary(t, nested, object)
	})
}

// FuzzDefaults checks for schemas and objects of the fuzzer that counting takes little memory, and that
// defaulting takes memory in proportion to the count.
func FuzzDefaults(f *testing.F) {
	f.Add(nested, `{"list":[{},null],"map":{"x":{}}}`)
	f.Add(multiplied(20), `{}`)
	f.Add(multiplied(3), `{}`)
	items := func(n int) string { return `[` + listed(n, func(int) string { return "{}" }) + `]` }
	f.Add(`{type: object, properties: {l: {type: array, items: {type: object, properties: {a: {type: array, default: `+items(100)+
		`, items: {type: object, properties: {b: {type: string, default: `+strings.Repeat("x", 100)+`}}}}}}}}}`, `{"l":`+items(5000)+`}`)
	f.Add(`{type: object, properties: {m: {type: object, additionalProperties: {type: object, default: {a: `+items(500)+`}}}}}`, `{"m":{"a":{},"b":null,"c":{}}}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		var object any
		v1, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
		if len(schema)+len(text) > 1<<16 || utiljson.Unmarshal([]byte(text), &object) != nil || yaml.Unmarshal([]byte(schema), v1) != nil ||
			apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil) != nil {
			return
		}
		structural, err := structuralOf(internal)
		if err != nil {
			return
		}
		costs := schemacost.New(structural)
		added := 0
		if used := cost.Allocated(func() { added = costs.Added(object, schemacost.MaxDefaults) }); used > 1<<20+uint64(100*len(text)) {
			t.Fatalf("counting %d bytes of defaults takes %d bytes", added, used)
		}
		if added > schemacost.MaxDefaults {
			return // the object is refused
		}
		if used := cost.Allocated(func() { structuraldefaulting.Default(object, structural) }); used > 1<<20+uint64(100*(added+len(text))) {
			t.Fatalf("defaults of %d bytes take %d bytes", added, used)
		}
	})
}

// multiplied is a schema of levels of defaults, each of which has ten times as many values as the one around it.
func multiplied(levels int) string {
	schema := `{type: string, default: text}`
	for range levels {
		schema = `{type: array, default: [{},{},{},{},{},{},{},{},{},{}], items: {type: object, properties: {a: ` + schema + `}}}`
	}
	return `{type: object, properties: {a: ` + schema + `}}`
}

// TestDefaultsInDefaults: defaults whose number multiplies with each level are counted without
// being made.
func TestDefaultsInDefaults(t *testing.T) {
	structural, _ := read(t, multiplied(20))
	if n := schemacost.New(structural).Added(map[string]any{}, schemacost.MaxDefaults); n <= schemacost.MaxDefaults {
		t.Errorf("counted %d", n)
	}
	if n := schemacost.New(structural).Added(map[string]any{"a": []any{}}, schemacost.MaxDefaults); n != 0 {
		t.Errorf("counted %d where nothing is added", n)
	}
}

// steps are the steps of an object by a schema.
func steps(t *testing.T, schema, object string) int {
	t.Helper()
	structural, _ := read(t, schema)
	n, err := schemacost.New(structural).Steps(t.Context(), value(t, object), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStepsMultiply: branches, values of an enum, fields and patterns count for each item.
func TestStepsMultiply(t *testing.T) {
	for name, items := range map[string]string{
		"branches":    `{type: integer, anyOf: [` + listed(1000, func(i int) string { return fmt.Sprintf("{minimum: %d}", i) }) + `]}`,
		"in branches": `{type: integer, not: {anyOf: [{allOf: [` + listed(1000, func(i int) string { return fmt.Sprintf("{minimum: %d}", i) }) + `]}]}}`,
		"enum":        `{type: string, enum: [` + listed(20000, func(i int) string { return fmt.Sprintf("v%d", i) }) + `]}`,
		"fields":      `{type: object, properties: {` + listed(5000, func(i int) string { return fmt.Sprintf("f%d: {type: string}", i) }) + `}}`,
		"pattern":     `{type: string, pattern: "^((a?){100}){10}$"}`,
	} {
		item := map[string]string{"fields": "{}", "branches": "1", "in branches": "1"}[name]
		if item == "" {
			item = `"` + strings.Repeat("a", 100) + `"`
		}
		list := listed(3000, func(int) string { return item })
		if n := steps(t, `{type: object, properties: {l: {type: array, items: `+items+`}}}`, `{"l":[`+list+`]}`); n <= schemacost.MaxSteps {
			t.Errorf("%s: %d steps", name, n)
		}
	}
	// Even a large object of an ordinary schema is far from the limit.
	const container = `{type: object, required: [name], properties: {name: {type: string, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength: 63}, image: {type: string},
		policy: {type: string, enum: [Always, Never, IfNotPresent]}, port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]},
		env: {type: array, items: {type: object, properties: {name: {type: string}, value: {type: string}}}}}}`
	object := listed(2000, func(i int) string {
		return fmt.Sprintf(`{"name":"container-%d","image":"registry.example/image:%d","policy":"Always","port":%d,"env":[{"name":"A","value":"b"},{"name":"B","value":"c"}]}`, i, i, i)
	})
	if n := steps(t, `{type: object, properties: {l: {type: array, items: `+container+`}}}`, `{"l":[`+object+`]}`); n > schemacost.MaxSteps/4 {
		t.Errorf("%d steps for an object of %d bytes", n, len(object))
	}
}
