package rules

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// builtinSchema is the schema of a built-in kind.
func builtinSchema(t testing.TB, gvk schema.GroupVersionKind) *openapi.Schema {
	t.Helper()
	documents, err := openapi.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	all, err := openapi.Schemas(documents.V3[openapi.Root(gvk.GroupVersion())].Packed)
	if err != nil || all[gvk] == nil {
		t.Fatalf("the schema of %s: %v", gvk, err)
	}
	return all[gvk]
}

const cameraDefinition = `
metadata: {name: cameras.example.com}
spec:
  group: example.com
  names: {plural: cameras, singular: camera, kind: Camera, listKind: CameraList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              fps: {type: integer}
              ratio: {type: number}
              port: {x-kubernetes-int-or-string: true}
              names: {type: array, items: {type: string}}
              lenses: {type: object, additionalProperties: {type: object, properties: {zoom: {type: integer}}}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {some: {type: string}}}
              active: {type: boolean}
`

func customSchema(t testing.TB) *openapi.Schema {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(cameraDefinition), crd); err != nil {
		t.Fatal(err)
	}
	packed, err := openapi.Describe(func() (*apiextensionsv1.CustomResourceDefinition, error) { return crd, nil }, "v1").V3()
	if err != nil {
		t.Fatal(err)
	}
	all, err := openapi.Schemas(packed)
	kind := all[schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Camera"}]
	if err != nil || kind == nil {
		t.Fatalf("the schema of cameras: %v", err)
	}
	return kind
}

// typeCases are rules, PATH = EXPRESSION or PATH := VALUE as JSON, and what is found of them;
// nothing of those that are right, or of which the schema says nothing.
var typeCases = []struct{ kind, rule, want string }{
	{"deployment", "$.spec.replicas = self + 1", ""},
	{"deployment", "$.spec.replcas = 1", `path: there is no field "replcas", but "replicas"`},
	{"deployment", "$.spec.nothingLikeIt := 1", `path: there is no field "nothingLikeIt"`},
	{"deployment", "$.spec.replicas.x := 1", `path: field "x" is of an integer, not of an object`},
	{"deployment", "$.spec[0] := 1", "path: element 0 is of an object, not of a list"},
	{"deployment", "$.spec.replicas[*] := 1", "path: an integer has neither elements nor fields"},
	{"deployment", "$.spec.replicas[+] := 1", "path: appends to an integer, which is no list"},
	{"deployment", `$.spec.replicas := "3"`, "value: is a string, where an integer belongs"},
	{"deployment", `$.spec.replicas := 3`, ""},
	{"deployment", `$.spec.paused := "yes"`, "value: is a string, where a boolean belongs"},
	{"deployment", `$.spec.template.spec.containers[*].env[+] := {"name":"A","value":"b"}`, ""},
	{"deployment", `$.spec.template.spec.containers[*].env[+] := {"name":"A","vlaue":"b"}`, `value: there is no field "vlaue", but "value"`},
	{"deployment", `$.spec.template.spec.containers[*].env[+] := {"name":"A","value":1}`, `value: "value" is a number, where a string belongs`},
	{"deployment", `$.spec.template.spec.containers[?@.name=="x"].args := ["a",1]`, "value: element 1 is a number, where a string belongs"},
	{"deployment", `$.spec.template.spec.containers[0].resources.limits.cpu := "500m"`, ""},
	{"deployment", `$.spec.template.spec.containers[0].resources.limits.cpu := 1`, ""},
	{"deployment", `$.spec.template.spec.containers[0].livenessProbe.httpGet.port := "http"`, ""},
	{"deployment", `$.spec.template.spec.nodeSelector["example.com/x"] := "y"`, ""},
	{"deployment", `$.metadata.labels.site = location.name`, ""},
	{"deployment", "$.spec.replicas = string(self)", "expression: gives a string, where an integer belongs"},
	{"deployment", "$.spec.replicas = location.name", "expression: gives a string, where an integer belongs"},
	{"deployment", "$.spec.replicas = location.properties.replicas", ""},
	{"deployment", "$.spec.replicas = location.properties[?'replicas'].orValue(self)", ""},
	{"deployment", "$.spec.replicas = self + 'x'", "expression: does not fit the schema: 1:6: found no matching overload for '_+_' applied to '(int, string)'"},
	{"deployment", "$.spec.replicas = object.spec.replcas", `expression: there is no field "replcas", but "replicas"`},
	{"deployment", "$.spec.replicas = has(object.spec.replcas) ? 1 : 2", `expression: there is no field "replcas", but "replicas"`},
	{"deployment", "$.spec.replicas = has(object.spec.replicas) ? object.spec.replicas : 2", ""},
	{"deployment", "$.spec.replicas = object['spec']['replicas'] * 2", ""},
	{"deployment", "$.spec.replicas = object['spec']['replcas'] * 2", `expression: there is no field "replcas", but "replicas"`},
	{"deployment", "$.spec.replicas = object.?spec.?replicas.orValue(1)", ""},
	{"deployment", "$.spec.replicas = object.?spec.?replicas.orValue('1')", "expression: does not fit the schema: 1:31: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'"},
	{"deployment", "$.spec.replicas = object.spec.template.spec.containers.map(c, c.image).size()", ""},
	{"deployment", "$.spec.replicas = object.spec.template.spec.containers.map(c, c.imgae).size()", `expression: there is no field "imgae", but "image"`},
	{"deployment", "$.spec.replicas = object.spec.template.spec.containers.filter(c, c.name > 1).size()", "expression: does not fit the schema: 1:55: found no matching overload for '_>_' applied to '(string, int)'"},
	{"deployment", "$.spec.replicas = object.spec.template.spec.containers.map(object, object.anything.at.all).size()", `expression: there is no field "anything"`},
	{"deployment", "$.spec.replicas = [{'spec': 1}].map(object, object.anything).size()", ""},
	{"deployment", "$.spec.template.spec.nodeSelector = self == {'a': 'b'} ? {'c': 'd'} : self", ""},
	{"deployment", "$.spec.template.spec.containers = self + [{'name': 'x', 'image': object.metadata.name}]", ""},
	{"deployment", "$.spec.template.spec.containers = 'name' in self[0] && object.spec.all(k, k != '') ? self : []", ""},
	{"deployment", "$.spec.template.spec.securityContext = has(object.spec.template.spec.securityContext) ? self : {}", ""},
	{"deployment", "$.spec.replicas = object.spec.replicas == null ? 1 : 2", ""},
	{"deployment", "$.spec.replicas = dyn(self) == 'x' ? 1 : 2", ""},
	{"deployment", "$.spec.template.spec.containers[0].args = [1, 2]", "expression: its elements: gives an integer, where a string belongs"},
	{"deployment", "$.spec.template.spec.containers[0].args = self.map(a, a + '!')", ""},
	{"deployment", "$.spec.template.spec.containers[0].image = self.replace('a', 'b')", ""},
	{"deployment", "$.spec.template.spec.containers[0].image = self.size()", "expression: gives an integer, where a string belongs"},
	{"deployment", "$.spec.template.spec.containers[0].resources.limits.cpu = quantity(self).add(1)", ""},
	{"deployment", "$.spec.template.spec.containers[0].env[+] = {'name': 'A', 'value': object.metadata.annotations['x']}", ""},
	{"deployment", "$.spec.template.spec.containers[0].env[+] = 'A'", "expression: gives a string, where an object belongs"},
	{"deployment", "$.spec.template.spec.containers[0].ports[0].containerPort = int(object.metadata.labels[?'port'].orValue('80'))", ""},
	{"deployment", "$.spec.template.spec.containers[0].name = object.metadata.labels.port + 1", "expression: does not fit the schema: 1:29: found no matching overload for '_+_' applied to '(string, int)'"},
	{"camera", "$.spec.fps = self * 2", ""},
	{"camera", "$.spec.fs = 1", `path: there is no field "fs"`},
	{"camera", "$.spec.fps = self.size()", "expression: does not fit the schema: 1:10: found no matching overload for 'size' applied to 'int.()'"},
	{"camera", "$.spec.ratio = self * 1.5", ""},
	{"camera", "$.spec.port = 'http'", ""},
	{"camera", "$.spec.lenses.front.zoom = object.spec.lenses['back'].zoom + 1", ""},
	{"camera", "$.spec.lenses.front.zom := 1", `path: there is no field "zom", but "zoom"`},
	{"camera", "$.spec.lenses[*].zoom := true", "value: is a boolean, where an integer belongs"},
	{"camera", "$.spec.any.thing = object.spec.any.other + 1", ""},
	{"camera", "$.spec.any.some := 1", "value: is a number, where a string belongs"},
	{"camera", "$.spec.names[+] = location.name", ""},
	{"camera", "$.spec.names[+] = 1", "expression: gives an integer, where a string belongs"},
	{"camera", "$.spec.active = self && object.spec.fps > 1", ""},
	{"anything", "$.spec.replcas = object.spec.what + self", ""},
}

func typeRule(t testing.TB, text string) v1alpha1.Rule {
	t.Helper()
	if path, value, ok := strings.Cut(text, " := "); ok {
		return v1alpha1.Rule{Path: path, Value: &apiextensionsv1.JSON{Raw: json.RawMessage(value)}}
	}
	path, expression, _ := strings.Cut(text, " = ")
	return v1alpha1.Rule{Path: path, Expression: expression}
}

// TestTypes checks rules by the schemas of kinds. What is right passes, however it uses
// objects as maps.
func TestTypes(t *testing.T) {
	e := newEngine(t)
	schemas := map[string]*openapi.Schema{
		"deployment": builtinSchema(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}),
		"camera":     customSchema(t), "anything": nil,
	}
	for _, c := range typeCases {
		rule := typeRule(t, c.rule)
		if errs := e.Check([]v1alpha1.Rule{rule}, field.NewPath("rules")); len(errs) > 0 {
			t.Errorf("%s can't be used: %v", c.rule, errs)
			continue
		}
		got := ""
		if err := e.CheckTypes(rule, schemas[c.kind], nil); err != nil {
			got = err.Field + ": " + err.Detail
		}
		if got != c.want {
			t.Errorf("%s of a %s:\n got %s\nwant %s", c.rule, c.kind, got, c.want)
		}
	}
}

// TestTypesOfScenarios shows that no rule of a scenario is found at fault that does what it
// is to do to a built-in kind, but for those that are about what the kind does not have.
func TestTypesOfScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	e, checked, schemas := newEngine(t), 0, map[schema.GroupVersionKind]*openapi.Schema{}
	// Those that are about no kind that there is.
	unreal := []string{"append-twice", "path-added", "path-wildcard-leaves-nothing-behind", "remove-elements", "self-missing"}
	for _, file := range files {
		if slices.Contains(unreal, strings.TrimSuffix(filepath.Base(file), ".txtar")) {
			continue
		}
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kind *openapi.Schema
		for i, f := range archive.Files {
			words := strings.Fields(f.Name)
			if words[0] == "object" {
				var object struct{ APIVersion, Kind string }
				if err := yaml.Unmarshal(f.Data, &object); err != nil {
					t.Fatal(err)
				}
				gvk := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind)
				if kind = nil; !strings.Contains(gvk.Group, ".") || strings.HasSuffix(gvk.Group, ".k8s.io") {
					if schemas[gvk] == nil {
						schemas[gvk] = builtinSchema(t, gvk)
					}
					kind = schemas[gvk]
				}
			}
			if words[0] != "customizer" || strings.Contains(archiveText(archive.Files[i:]), " is held --") {
				continue
			}
			var spec v1alpha1.CustomizerSpec
			if err := yaml.UnmarshalStrict(f.Data, &spec); err != nil {
				t.Fatal(err)
			}
			for _, rule := range spec.Rules {
				checked++
				if err := e.CheckTypes(rule, kind, nil); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d rules are checked", checked)
	}
}

func archiveText(files []txtar.File) string {
	return string(txtar.Format(&txtar.Archive{Files: files}))
}

// BenchmarkTypes is the check of one expression by one schema.
func BenchmarkTypes(b *testing.B) {
	e := newEngine(b)
	kind := builtinSchema(b, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	rule := typeRule(b, "$.spec.replicas = object.spec.template.spec.containers.filter(c, c.name != '').size() + self")
	for b.Loop() {
		e.language.checker.Forget()
		if err := e.CheckTypes(rule, kind, nil); err != nil {
			b.Fatal(err)
		}
	}
}
