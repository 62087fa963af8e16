package schemacompat

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// crd is a definition of widgets, with the YAML of its spec's versions, or all of its spec.
func crd(t testing.TB, spec string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c := &apiextensionsv1.CustomResourceDefinition{}
	base := "{group: shop.example, scope: Namespaced, names: {plural: widgets, kind: Widget}}"
	for _, text := range []string{base, spec} {
		if err := yaml.UnmarshalStrict([]byte(text), &c.Spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// v1 is a definition whose only version has a schema of its spec.
func v1(t testing.TB, schema string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return crd(t, fmt.Sprintf("versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}}]", schema))
}

// messageOf returns the field and the detail of a MisfitError.
func messageOf(m *MisfitError) string {
	if m == nil {
		return "fits"
	}
	return m.Field + ": " + m.Detail
}

// fit returns the message of Fit for an object.
func fit(t testing.TB, definition *Definition, object string) string {
	t.Helper()
	m, err := definition.Fit([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return messageOf(m)
}

func TestContradiction(t *testing.T) {
	for _, c := range []struct{ name, there, here, want string }{
		{"the same", "{type: object, properties: {size: {type: integer}}}", "{type: object, properties: {size: {type: integer}}}", "fits"},
		{"more fields", "{type: object, properties: {size: {type: integer}}}", "{type: object, properties: {color: {type: string}}}", "fits"},
		{"other types", "{type: object, properties: {size: {type: integer}}}", "{type: object, properties: {size: {type: string}}}", "versions[v1] spec.size: integer there, string here"},
		{"the first by name", "{type: object, properties: {b: {type: integer}, a: {type: integer}}}", "{type: object, properties: {b: {type: string}, a: {type: string}}}", "versions[v1] spec.a: integer there, string here"},
		{"numbers may be integers", "{type: object, properties: {size: {type: number}}}", "{type: object, properties: {size: {type: integer}}}", "fits"},
		{"integer or string", "{type: object, properties: {port: {x-kubernetes-int-or-string: true}}}", "{type: object, properties: {port: {type: string}}}", "fits"},
		{"neither of these", "{type: object, properties: {port: {x-kubernetes-int-or-string: true}}}", "{type: object, properties: {port: {type: boolean}}}", "versions[v1] spec.port: integer or string there, boolean here"},
		{"anything", "{type: object, properties: {any: {x-kubernetes-preserve-unknown-fields: true}}}", "{type: object, properties: {any: {type: boolean}}}", "fits"},
		{"items", "{type: object, properties: {all: {type: array, items: {type: string}}}}", "{type: object, properties: {all: {type: array, items: {type: object}}}}", "versions[v1] spec.all[*]: string there, object here"},
		{"values of a map", "{type: object, properties: {by: {type: object, additionalProperties: {type: string}}}}", "{type: object, properties: {by: {type: object, additionalProperties: {type: integer}}}}", "versions[v1] spec.by[*]: string there, integer here"},
		{"no common value", "{type: object, properties: {size: {type: string, enum: [S, L]}}}", "{type: object, properties: {size: {type: string, enum: [small, large]}}}", "versions[v1] spec.size: no value is in the enumerations of both"},
		{"a common value", "{type: object, properties: {size: {type: string, enum: [S, L]}}}", "{type: object, properties: {size: {type: string, enum: [M, L]}}}", "fits"},
		{"the whole spec", "{type: string}", "{type: object}", "versions[v1] spec: string there, object here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := messageOf(Contradiction(v1(t, c.there), v1(t, c.here))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestContradictionOfNamesAndVersions(t *testing.T) {
	const v = "versions: [{name: v1, served: true, storage: true}]"
	for _, c := range []struct{ name, here, want string }{
		{"scope", "{scope: Cluster, " + v + "}", "spec.scope: Namespaced there, Cluster here"},
		{"kind", "{names: {plural: widgets, kind: Gadget}, " + v + "}", "spec.names.kind: Widget there, Gadget here"},
		{"kind of lists", "{names: {plural: widgets, kind: Widget, listKind: Widgets}, " + v + "}", "spec.names.listKind: WidgetList there, Widgets here"},
		{"singular", "{names: {plural: widgets, kind: Widget, singular: wid}, " + v + "}", "spec.names.singular: widget there, wid here"},
		{"short names", "{names: {plural: widgets, kind: Widget, shortNames: [w]}, " + v + "}", "fits"},
		{"no common version", "{versions: [{name: v1, served: false, storage: true}, {name: v2, served: true}]}", "spec.versions: only v1 there, only v2 here"},
		{"a common version", "{versions: [{name: v2, served: true, storage: true}, {name: v1, served: true}]}", "fits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Contradiction(crd(t, "{"+v+"}"), crd(t, c.here))
			if got := messageOf(m); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if m != nil && !strings.HasPrefix(m.Error(), "it contradicts another space's definition") {
				t.Errorf("got %q", m.Error())
			}
		})
	}
}

const shop = `{type: object, required: [size], properties: {
  size: {type: string, enum: [S, L]}, count: {type: integer, maximum: 9}, port: {x-kubernetes-int-or-string: true},
  title: {type: string, pattern: "^[a-z]*$"}, color: {type: string, default: red}, tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
  free: {type: object, x-kubernetes-preserve-unknown-fields: true}, by: {type: object, additionalProperties: {type: object, required: [color], properties: {color: {type: string, default: red}}}},
  old: {type: string, nullable: true}, rule: {type: string, x-kubernetes-validations: [{rule: "false"}]}}}`

func TestFit(t *testing.T) {
	there := New(v1(t, shop))
	for _, c := range []struct{ name, spec, want string }{
		{"all", `{"size": "S", "count": 3, "port": "http", "title": "a", "tags": ["a"], "free": {"x": 1}, "by": {"x": {}}, "old": null}`, "fits"},
		{"type", `{"size": "S", "count": "3"}`, `spec.count: Invalid value: must be of type integer: "string"`},
		{"fraction", `{"size": "S", "count": 3.5}`, "(the whole object): Invalid value: Checked value must be of type integer (default format) in spec.count"},
		{"enum", `{"size": "M"}`, `spec.size: Unsupported value: supported values: "S", "L"`},
		{"required", `{}`, "spec.size: Required value"},
		{"required, with a default", `{"size": "S", "by": {"x": {}}}`, "fits"},
		{"unknown", `{"size": "S", "weight": 1}`, "spec.weight: unknown field there"},
		{"the first unknown by name", `{"size": "S", "z": 1, "weight": 1}`, "spec.weight: unknown field there"},
		{"unknown is said before what is wrong", `{"weight": 1}`, "spec.weight: unknown field there"},
		{"unknown below what is kept", `{"size": "S", "free": {"weight": {"x": 1}}}`, "fits"},
		{"pattern", `{"size": "S", "title": "A"}`, `spec.title: Invalid value: should match '^[a-z]*$'`},
		{"maximum", `{"size": "S", "count": 10}`, "spec.count: Invalid value: should be less than or equal to 9"},
		{"a set", `{"size": "S", "tags": ["a", "a"]}`, "spec.tags[1]: Duplicate value"},
		{"null that is dropped", `{"size": "S", "title": null}`, "fits"},
		{"null of what is required", `{"size": null}`, "spec.size: Required value"},
		{"expressions are not evaluated", `{"size": "S", "rule": "x"}`, "fits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := fmt.Sprintf(`{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n", "labels": {"a": "b"}}, "spec": %s}`, c.spec)
			if got := fit(t, there, object); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestFirstOfManyErrors: of an object with more errors than a validation finds, the first one is named, and it is
// the same one each time.
func TestFirstOfManyErrors(t *testing.T) {
	list := func(n int, format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(all, ",")
	}
	required := New(v1(t, `{type: object, required: [`+list(150, `r%03d`)+`], properties: {`+list(150, `r%03d: {type: string}`)+`}}`))
	combined := New(v1(t, `{type: object, properties: {a: {type: string}}, allOf: [`+list(150, `{required: [r%03d]}`)+`]}`))
	for name, c := range map[string]struct {
		there *Definition
		spec  string
		want  string
	}{
		"in a map": {New(v1(t, shop)), `{"size": "S", "tags": [` + list(300, "%d") + `], "by": {` + list(300, `"k%03d": {"color": 1}`) + `}}`,
			`spec.by.k000.color: Invalid value: must be of type string: "integer"`},
		"in a list":     {New(v1(t, shop)), `{"size": "S", "tags": ["a", ` + list(300, "%d") + `]}`, `spec.tags[1]: Invalid value: must be of type string: "integer"`},
		"of the object": {required, `{}`, "spec.r000: Required value"},
		"combined":      {combined, `{}`, "spec: Invalid value: there are 100 errors or more in it"},
	} {
		object := fmt.Sprintf(`{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}, "spec": %s}`, c.spec)
		for range 10 {
			if got := fit(t, c.there, object); got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
				break
			}
		}
	}
}

// TestDefaultsThereAreCounted: an object that would become too large by the defaults there does not fit.
func TestDefaultsThereAreCounted(t *testing.T) {
	items := strings.TrimSuffix(strings.Repeat("{},", 200), ",")
	there := New(v1(t, `{type: object, properties: {l: {type: array, items: {type: object, properties: {a: {type: array, default: [`+items+`],
		items: {type: object, properties: {b: {type: string, default: `+strings.Repeat("x", 100)+`}}}}}}}}}`))
	object := func(n int) string {
		return `{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}, "spec": {"l": [` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}}`
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := fit(t, there, object(5000))
	runtime.ReadMemStats(&after)
	if want := "(the whole object): the defaults there would add more than 1507328 bytes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("it took %d bytes to see that", used)
	}
	if got := fit(t, there, object(1)); got != "fits" {
		t.Errorf("a small one: %s", got)
	}
}

func TestFitOfKinds(t *testing.T) {
	object := func(version, kind, metadata string) string {
		return fmt.Sprintf(`{"apiVersion": "shop.example/%s", "kind": "%s", "metadata": {%s}, "any": 1}`, version, kind, metadata)
	}
	const in = `"name": "a", "namespace": "n"`
	versions := "versions: [{name: v1, served: true, storage: true}, {name: v2, served: false}]"
	namespaced, cluster := New(crd(t, "{"+versions+"}")), New(crd(t, "{scope: Cluster, "+versions+"}"))
	for _, c := range []struct {
		name         string
		there        *Definition
		object, want string
	}{
		{"without a schema", namespaced, object("v1", "Widget", in), "fits"},
		{"version that is not served", namespaced, object("v2", "Widget", in), "apiVersion: version v2 is not served there, only v1"},
		{"unknown version", namespaced, object("v3", "Widget", in), "apiVersion: version v3 is not served there, only v1"},
		{"kind", namespaced, object("v1", "Gadget", in), "kind: Widget there, Gadget here"},
		{"in no namespace", namespaced, object("v1", "Widget", `"name": "a"`), "metadata.namespace: its objects are in namespaces there, and this is in none"},
		{"in a namespace", cluster, object("v1", "Widget", in), "metadata.namespace: its objects are in no namespace there, and this is in one"},
		{"cluster", cluster, object("v1", "Widget", `"name": "a"`), "fits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fit(t, c.there, c.object); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestMisfitsAreShort checks that the message is short even for a long name in an object or a definition.
func TestMisfitsAreShort(t *testing.T) {
	long := strings.Repeat("ü", 100_000)
	m, err := New(v1(t, "{type: object}")).Fit(fmt.Appendf(nil, `{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}, "spec": {%q: 1}}`, long))
	if err != nil || m == nil || len(m.Error()) > 1000 {
		t.Errorf("the message has %d bytes, %v", len(messageOf(m)), err)
	}
	there, here := v1(t, "{type: object}"), v1(t, "{type: object}")
	for c, kind := range map[*apiextensionsv1.CustomResourceDefinition]string{there: "string", here: "integer"} {
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[long] = apiextensionsv1.JSONSchemaProps{Type: kind}
	}
	m = Contradiction(there, here)
	if m == nil || len(m.Error()) > 1000 {
		t.Errorf("the message has %d bytes", len(messageOf(m)))
	}
}
