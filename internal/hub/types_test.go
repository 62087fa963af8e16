package hub_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const customizersPath = "/spaces/s/apis/orrery.dev/v1alpha1/customizers"

func customizerJSON(name, match, rules string) string {
	return `{"apiVersion":"orrery.dev/v1alpha1","kind":"Customizer","metadata":{"name":"` + name + `"},"spec":{"match":[` + match + `],"rules":[` + rules + `]}}`
}

// TestTypesAreCheckedWhenWritten shows that rules which can't be right for kinds that are
// named exactly are refused at their field, and that anything else that is found is a warning.
func TestTypesAreCheckedWhenWritten(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	const (
		exactly = `{"apiGroup":"apps","resources":["deployments"]}`
		several = `{"apiGroup":"apps","resources":["deployments","daemonsets"]}`
		byName  = `{"resources":["deployments"]}`
		widgets = `{"apiGroup":"example.org","resources":["widgets"]}`
		good    = `{"path":"$.spec.replicas","expression":"self + 1"}`
		typo    = `{"path":"$.spec.replcas","value":1}`
		text    = `{"path":"$.spec.paused","expression":"object.spec.replicas + 'x' == ''"}`
	)
	for _, c := range []struct{ name, match, rules, refused, warned string }{
		{"good", exactly, good, "", ""},
		{"path", exactly, good + "," + typo, `spec.rules[1].path: Invalid value: "$.spec.replcas": for Deployment: there is no field "replcas", but "replicas"`, ""},
		{"expression", exactly, good + "," + good + "," + text, `spec.rules[2].expression: Invalid value`, ""},
		{"expression-says", exactly, text, `for Deployment: does not fit the schema: 1:22: found no matching overload for '_+_' applied to '(int, string)'`, ""},
		{"value", exactly, `{"path":"$.spec.replicas","value":"3"}`, `spec.rules[0].value: Invalid value: "\"3\"": for Deployment: is a string, where an integer belongs`, ""},
		{"release", exactly, `{"path":"$.spec.replcas","release":true}`, `spec.rules[0].path`, ""},
		{"of-all", several, typo, "spec.rules[0].path", ""},
		{"of-one", several, good, "", `spec.rules[0].path: for DaemonSet: there is no field "replicas"`},
		{"loose", byName, typo, "", `spec.rules[0].path: for Deployment: there is no field "replcas", but "replicas"`},
		{"any", `{"names":["x"]}`, typo, "", `spec.match[0]: gives no resources, so rules are not checked by the schemas of kinds; name resources and apiGroup to have that`},
		{"unknown", widgets, typo, "", `spec.match[0]: the space has no resource "widgets" yet`},
	} {
		if c.refused != "" {
			code, body := admin.send("POST "+customizersPath, customizerJSON(c.name, c.match, c.rules))
			if code != http.StatusUnprocessableEntity || !strings.Contains(body, strings.ReplaceAll(strings.ReplaceAll(c.refused, `\`, `\\`), `"`, `\"`)) {
				t.Errorf("%s: %d %s, want %s", c.name, code, body, c.refused)
			}
			continue
		}
		warned := strings.Join(admin.warned("POST "+customizersPath, customizerJSON(c.name, c.match, c.rules)), "\n")
		if warned != c.warned {
			t.Errorf("%s: warned is of %q, want %q", c.name, warned, c.warned)
		}
		// A rule that can't be checked causes one warning; a rule that does not fit causes one for each write.
		again := strings.Join(admin.warned("PATCH "+customizersPath+"/"+c.name, customizerJSON(c.name, c.match, c.rules), contentType, string(types.MergePatchType)), "\n")
		if want := c.warned; strings.HasPrefix(want, "spec.rules") && again != want || !strings.HasPrefix(want, "spec.rules") && again != "" {
			t.Errorf("%s: written again, warned is of %q", c.name, again)
		}
	}
}

// TestSchemasThatChange checks that a schema which is added or changed later does not disable stored rules: they
// remain in force, and other fields can be edited. New rules are checked by the schema.
func TestSchemasThatChange(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", nil)
	admin := r.as("admin", "system:masters")
	const (
		match = `{"apiGroup":"example.org","resources":["widgets"]}`
		size  = `{"path":"$.spec.size","expression":"self + 1"}`
		other = `{"path":"$.spec.other","value":1}`
	)
	admin.warned("POST "+customizersPath, customizerJSON("c", match, size))
	define := func(spec string) {
		t.Helper()
		crd := widgetDefinition()
		crd.SetResourceVersion("")
		path := "/spaces/s/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.org?fieldManager=x&force=true"
		code, body := admin.send("PATCH "+path, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},"spec":{
			"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{`+spec+`}}}}}}]}}`, contentType, applyYAML)
		if code >= http.StatusBadRequest {
			t.Fatalf("%d %s", code, body)
		}
		r.eventually(func() string {
			if code, body := admin.send("GET /spaces/s/apis/example.org/v1/namespaces/default/widgets", ""); code != http.StatusOK {
				return body
			}
			return ""
		})
	}
	define(`"size":{"type":"integer"}`)
	widgets := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	r.create("s", widgets, object("example.org/v1", "Widget", "default", "one", nil, map[string]any{"spec": map[string]any{"size": int64(1)}}))
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"names": []any{"a"}}}, "downsync": []any{map[string]any{"resources": []any{"widgets"}}},
	}}))
	sized := func() any {
		t.Helper()
		u, err := r.view("a").Resource(widgets).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return dig(u.Object, "spec", "size")
	}
	if got := sized(); got != int64(2) {
		t.Errorf("the location has size %v", got)
	}

	define(`"length":{"type":"string"}`)
	patch := func(rules string) (int, string, []string) {
		t.Helper()
		const path = "PATCH " + customizersPath + "/c"
		code, body := admin.send(path, `{"spec":{"rules":[`+rules+`]}}`, contentType, string(types.MergePatchType))
		if code >= http.StatusBadRequest {
			return code, body, nil
		}
		return code, body, admin.warned(path, `{"spec":{"rules":[`+rules+`]}}`, contentType, string(types.MergePatchType))
	}
	const gone = `spec.rules[0].path: for Widget: there is no field "size"`
	if code, body, warned := patch(size + `,{"path":"$.spec.length","value":"x"}`); code != http.StatusOK || strings.Join(warned, "\n") != gone {
		t.Errorf("beside a rule that is stored: %d %s, warned is of %q", code, body, warned)
	}
	if code, body, _ := patch(size + "," + other); code != http.StatusUnprocessableEntity || !strings.Contains(body, "spec.rules[1].path") || strings.Contains(body, "spec.rules[0]") {
		t.Errorf("a new rule that does not fit: %d %s", code, body)
	}
	if got := sized(); got != nil && got != int64(2) {
		t.Errorf("the location has size %v", got)
	}
}

const summariesPath = "/spaces/s/apis/orrery.dev/v1alpha1/summaries"

// TestTypesOfSummaries shows the same of the expressions of Summaries.
func TestTypesOfSummaries(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	admin := r.as("admin", "system:masters")
	const (
		exactly = `"match":[{"apiGroup":"apps","resources":["deployments"]}]`
		several = `"match":[{"apiGroup":"apps","resources":["deployments","daemonsets"]}]`
		byName  = `"match":[{"resources":["deployments"]}]`
		widgets = `"match":[{"apiGroup":"example.org","resources":["widgets"]}]`
		good    = `"groupBy":[{"name":"r","expression":"object.spec.?replicas"}],"combine":[{"name":"n","type":"SUM","expression":"status.?readyReplicas.orValue(0)"}]`
		typo    = `"combine":[{"name":"n","type":"COUNT"},{"name":"m","type":"SUM","expression":"status.?redyReplicas.orValue(0)"}]`
		known   = `for Deployment: there is no field "redyReplicas", but "readyReplicas"`
		ready   = `"combine":[{"name":"m","type":"SUM","expression":"status.?readyReplicas"}]`
	)
	for _, c := range []struct{ name, spec, refused, warned string }{
		{"good", exactly + "," + good, "", ""},
		{"combine", exactly + "," + typo, `spec.combine[1].expression: Invalid value: "status.?redyReplicas.orValue(0)": ` + known, ""},
		{"filter", exactly + `,"filter":"object.spec.replica == 1",` + good, `spec.filter: Invalid value: "object.spec.replica == 1": for Deployment: there is no field "replica", but "replicas"`, ""},
		{"filter-type", exactly + `,"filter":"object.spec.replicas",` + good, `spec.filter: Invalid value: "object.spec.replicas": for Deployment: gives a number, where a boolean belongs`, ""},
		{"group", exactly + `,"groupBy":[{"name":"x","expression":"object.spec.strategi.type"}],` + typo, `spec.groupBy[0].expression`, ""},
		{"select", exactly + `,"select":[{"name":"x","expression":"object.metadata.nam"}]`, `spec.select[0].expression`, ""},
		{"text", exactly + `,"combine":[{"name":"m","type":"SUM","expression":"object.metadata.name"}]`, `for Deployment: gives a text; SUM is of numbers`, ""},
		{"of-all", several + `,"combine":[{"name":"m","type":"SUM","expression":"status.redyReplicas"}]`, `spec.combine[0].expression`, ""},
		{"of-one", several + "," + ready, "", `spec.combine[0].expression: for DaemonSet: there is no field "readyReplicas"`},
		{"loose", byName + "," + typo, "", "spec.combine[1].expression: " + known},
		{"dynamic", exactly + `,"combine":[{"name":"m","type":"SUM","expression":"dyn(status).newer"}]`, "", ""},
		{"born", `"from":"Upsynced",` + exactly + "," + typo, "", "spec.combine[1].expression: " + known},
		{"any", `"match":[{"names":["x"]}],` + good, "", `spec.match[0]: gives no resources, so expressions are not checked by the schemas of kinds; name resources and apiGroup to have that`},
		{"any-sync", `"match":[{"names":["x"]}],"groupBy":[{"name":"s","expression":"sync.state"}],"combine":[{"name":"n","type":"COUNT"}]`, "", ""},
		{"unknown", widgets + "," + typo, "", `spec.match[0]: the space has no resource "widgets" yet`},
	} {
		body := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Summary","metadata":{"name":"` + c.name + `"},"spec":{` + c.spec + `}}`
		if c.refused != "" {
			code, answer := admin.send("POST "+summariesPath, body)
			if code != http.StatusUnprocessableEntity || !strings.Contains(answer, strings.ReplaceAll(c.refused, `"`, `\"`)) {
				t.Errorf("%s: %d %s, want %s", c.name, code, answer, c.refused)
			}
			continue
		}
		if warned := strings.Join(admin.warned("POST "+summariesPath, body), "\n"); warned != c.warned {
			t.Errorf("%s: warned is of %q, want %q", c.name, warned, c.warned)
		}
		again := strings.Join(admin.warned("PATCH "+summariesPath+"/"+c.name, body, contentType, string(types.MergePatchType)), "\n")
		if want := c.warned; strings.HasPrefix(want, "spec.match") && again != "" || !strings.HasPrefix(want, "spec.match") && again != want {
			t.Errorf("%s: written again, warned is of %q", c.name, again)
		}
	}
	// An edit beside is no obstacle; what is about other objects than before is new.
	body := `{"spec":{"limit":5}}`
	if again := strings.Join(admin.warned("PATCH "+summariesPath+"/loose", body, contentType, string(types.MergePatchType)), "\n"); again != "spec.combine[1].expression: "+known {
		t.Errorf("an edit beside is warned of %q", again)
	}
	if code, answer := admin.send("PATCH "+summariesPath+"/born", `{"spec":{"from":"Downsynced"}}`, contentType, string(types.MergePatchType)); code != http.StatusUnprocessableEntity || !strings.Contains(answer, "spec.combine[1].expression") {
		t.Errorf("what is now about placed objects: %d %s", code, answer)
	}
}
