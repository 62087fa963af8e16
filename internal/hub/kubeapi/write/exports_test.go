package write_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// accepted is the spec of an object of Orrery's kinds, and its expected error.
type accepted struct {
	name, spec string
	// field and message are those of the expected error; empty if the object is accepted.
	field, message string
}

// checkSpecs creates an object of each spec in dry runs.
func (h *hub) checkSpecs(space, resource, kind string, cases []accepted) {
	h.t.Helper()
	for _, c := range cases {
		body := fmt.Sprintf(`{"apiVersion":"orrery.dev/v1alpha1","kind":%q,"metadata":{"name":"x"},"spec":%s}`, kind, c.spec)
		a := h.do("POST", space, "/apis/orrery.dev/v1alpha1/"+resource+"?dryRun=All", body)
		if c.field == "" {
			if a.code != 201 {
				h.t.Errorf("%s: %d %s", c.name, a.code, a.raw)
			}
			continue
		}
		if got := causesOf(a); a.code != 422 || !strings.Contains(got, c.field+": ") || !strings.Contains(got, c.message) || strings.Contains(got, "\n") {
			h.t.Errorf("%s: %d %q, want %s: ...%s", c.name, a.code, got, c.field, c.message)
		}
	}
}

// causesOf returns the causes of a response, one per line.
func causesOf(a answer) string {
	var status struct {
		Details struct {
			Causes []struct{ Field, Message string }
		}
	}
	if json.Unmarshal(a.raw, &status) != nil {
		return ""
	}
	var all []string
	for _, c := range status.Details.Causes {
		if c.Field == "<nil>" { // that rules are not checked where the schema is not met
			continue
		}
		all = append(all, c.Field+": "+c.Message)
	}
	return strings.Join(all, "\n")
}

// TestExportsAreJudged: an APIExport offers what others' CRDs may define, and claims kinds that
// every space has and that are no one's rights.
func TestExportsAreJudged(t *testing.T) {
	h := newHub(t)
	const widgets = `"resources":[{"group":"example.com","resource":"widgets"}]`
	claim := func(more string) string {
		return `{` + widgets + `,"claims":[{"resource":"secrets","verbs":["get"]` + more + `}]}`
	}
	claimOf := func(group, resource string) string {
		return fmt.Sprintf(`{"claims":[{"group":%q,"resource":%q,"verbs":["get"]}]}`, group, resource)
	}
	referred := func(group, resource, path string) string {
		return claim(fmt.Sprintf(`,"referredBy":[{"group":%q,"resource":%q,"path":%q}]`, group, resource, path))
	}
	const never = "objects of this kind can't be claimed"
	h.checkSpecs("a", "apiexports", "APIExport", []accepted{
		{"nothing", `{}`, "", ""},
		{"what is not defined yet", `{` + widgets + `}`, "", ""},
		{"two of one group", `{"resources":[{"group":"example.com","resource":"widgets"},{"group":"example.com","resource":"racks"}]}`, "", ""},
		{"one resource twice", `{"resources":[{"group":"example.com","resource":"widgets"},{"group":"example.com","resource":"widgets"}]}`, "spec.resources[1]", "Duplicate"},
		{"no group", `{"resources":[{"group":"","resource":"widgets"}]}`, "spec.resources[0].group", "at least 1"},
		{"no resource", `{"resources":[{"group":"example.com","resource":""}]}`, "spec.resources[0].resource", "at least 1"},
		{"Orrery's own", `{"resources":[{"group":"example.com","resource":"widgets"},{"group":"orrery.dev","resource":"placements"}]}`, "spec.resources[1].group", `group "orrery.dev" is Orrery's own`},

		{"a claim", claim(""), "", ""},
		{"a claim of another group", claimOf("apps", "deployments"), "", ""},
		{"a claim of what is in no namespace", claimOf("", "namespaces"), "", ""},
		{"a claim with a selector", claim(`,"selector":{"matchLabels":{"use":"e"}}`), "", ""},
		{"a claim twice", `{"claims":[{"resource":"secrets","verbs":["get"]},{"group":"","resource":"secrets","verbs":["list"]}]}`, "spec.claims[1]", "Duplicate"},
		{"no verbs", `{"claims":[{"resource":"secrets","verbs":[]}]}`, "spec.claims[0].verbs", "at least 1"},
		{"an unknown verb", `{"claims":[{"resource":"secrets","verbs":["get","impersonate"]}]}`, "spec.claims[0].verbs[1]", `"impersonate"`},
		{"a verb twice", `{"claims":[{"resource":"secrets","verbs":["get","get"]}]}`, "spec.claims[0].verbs[1]", "Duplicate"},
		{"what only a CRD defines", claimOf("example.com", "gadgets"), "spec.claims[0].resource", "not every space has such a kind"},
		{"a kind in another group", claimOf("apps", "secrets"), "spec.claims[0].resource", "not every space has such a kind"},
		{"what only root has", claimOf("orrery.dev", "spaces"), "spec.claims[0].resource", "not every space has such a kind"},
		{"Grants", claimOf("orrery.dev", "grants"), "spec.claims[0].resource", never},
		{"bindings", claimOf("orrery.dev", "apibindings"), "spec.claims[0].resource", never},
		{"locations", claimOf("orrery.dev", "locations"), "spec.claims[0].resource", never},
		{"definitions", claimOf("apiextensions.k8s.io", "customresourcedefinitions"), "spec.claims[0].resource", never},
		{"reviews", claimOf("authorization.k8s.io", "subjectaccessreviews"), "spec.claims[0].resource", "not every space has such a kind"},
		{"Events", claimOf("", "events"), "spec.claims[0].resource", never},
		{"Events by their other group", claimOf("events.k8s.io", "events"), "spec.claims[0].resource", ""},
		{"Leases", claimOf("coordination.k8s.io", "leases"), "spec.claims[0].resource", never},
		{"the second of two", `{"claims":[{"resource":"secrets","verbs":["get"]},{"resource":"gadgets","verbs":["get"]}]}`, "spec.claims[1].resource", "not every space has such a kind"},

		{"a selector with a bad label", claim(`,"selector":{"matchLabels":{"a b":"c"}}`), "spec.claims[0].selector.matchLabels", "a b"},
		{"a selector with a bad value", claim(`,"selector":{"matchLabels":{"a":"-"}}`), "spec.claims[0].selector.matchLabels", "-"},
		{"a selector with an unknown operator", claim(`,"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}`), "spec.claims[0].selector.matchExpressions[0].operator", "Near"},
		{"a selector without values", claim(`,"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}`), "spec.claims[0].selector.matchExpressions[0].values", "must be specified"},

		{"a reference", referred("example.com", "widgets", ".spec.secret"), "", ""},
		{"a reference in a status", referred("example.com", "widgets", ".status.secret.name"), "", ""},
		{"a reference of what is not exported", referred("example.com", "racks", ".spec.secret"), "spec.claims[0].referredBy[0].resource", "the export has no such resource"},
		{"a reference of another group", referred("example.org", "widgets", ".spec.secret"), "spec.claims[0].referredBy[0].resource", "the export has no such resource"},
		{"a path without a dot", referred("example.com", "widgets", "spec.secret"), "spec.claims[0].referredBy[0].path", "should match"},
		{"a path with an index", referred("example.com", "widgets", ".spec.secrets[0]"), "spec.claims[0].referredBy[0].path", "should match"},
		{"a path with a query", referred("example.com", "widgets", ".spec.#(a==1)"), "spec.claims[0].referredBy[0].path", "should match"},
	})
}

// TestBindingsAreJudged: an APIBinding is of another space's export.
func TestBindingsAreJudged(t *testing.T) {
	h := newHub(t)
	exportOf := func(space, more string) string {
		return fmt.Sprintf(`{"export":{"space":%q,"name":"e"}%s}`, space, more)
	}
	cases := []accepted{
		{"a space that is not there", exportOf("nowhere", ""), "", ""},
		{"root", exportOf("root", ""), "", ""},
		{"decisions", exportOf("b", `,"claims":[{"resource":"secrets","state":"Accepted"},{"resource":"configmaps","state":"Rejected"}]`), "", ""},
		{"what is not claimed", exportOf("b", `,"claims":[{"group":"none.example.com","resource":"none","state":"Accepted"}]`), "", ""},
		{"its own space", exportOf("a", ""), "spec.export.space", "a space has the resources that it exports"},
		{"all spaces", exportOf("*", ""), "spec.export.space", "*"},
		{"upper case", exportOf("B", ""), "spec.export.space", "B"},
		{"two dashes", exportOf("b--c", ""), "spec.export.space", "b--c"},
		{"a path", exportOf("b/c", ""), "spec.export.space", "b/c"},
		{"no space", exportOf("", ""), "spec.export.space", "at least 1"},
		{"no name", `{"export":{"space":"b","name":""}}`, "spec.export.name", "at least 1"},
		{"no export", `{}`, "spec.export", "Required"},
		{"no state", exportOf("b", `,"claims":[{"resource":"secrets"}]`), "spec.claims[0].state", "Required"},
		{"an unknown state", exportOf("b", `,"claims":[{"resource":"secrets","state":"Maybe"}]`), "spec.claims[0].state", "Maybe"},
		{"two decisions", exportOf("b", `,"claims":[{"resource":"secrets","state":"Accepted"},{"group":"","resource":"secrets","state":"Rejected"}]`), "spec.claims[1]", "Duplicate"},
	}
	h.checkSpecs("a", "apibindings", "APIBinding", cases)
	h.checkSpecs("root", "apibindings", "APIBinding", []accepted{{"root of root", exportOf("root", ""), "spec.export.space", "a space has the resources that it exports"}})
}

// TestViewsAreJudged: an APIExportView slices by a label or a field of spec, into values that
// labels can have, and neither its export nor its key change.
func TestViewsAreJudged(t *testing.T) {
	h := newHub(t)
	splitBy := func(split, more string) string { return `{"export":"e","split":` + split + more + `}` }
	label, field := func(l string) string { return splitBy(fmt.Sprintf(`{"label":%q}`, l), "") }, func(f string) string { return splitBy(fmt.Sprintf(`{"field":%q}`, f), "") }
	values := func(all string) string { return splitBy(`{"label":"tier"}`, `,"values":`+all) }
	h.checkSpecs("a", "apiexportviews", "APIExportView", []accepted{
		{"a label", label("tier"), "", ""},
		{"a label with a domain", label("example.com/tier"), "", ""},
		{"a field", field(".spec.class"), "", ""},
		{"a deep field", field(".spec.a.b.c.d.e.f.g"), "", ""},
		{"values", values(`["a","b-c","D_1.e"]`), "", ""},
		{"no values", values(`[]`), "", ""},
		{"no export", `{"split":{"label":"tier"}}`, "spec.export", "Required"},
		{"an empty export", `{"export":"","split":{"label":"tier"}}`, "spec.export", "at least 1"},
		{"no split", `{"export":"e"}`, "spec.split", "Required"},
		{"neither", splitBy(`{}`, ""), "spec.split", "give a label or a field"},
		{"both", splitBy(`{"label":"tier","field":".spec.class"}`, ""), "spec.split", "give a label or a field"},
		{"an empty label", label(""), "spec.split.label", "should match"},
		{"a label with a blank", label("a b"), "spec.split.label", "should match"},
		{"a label of two paths", label("a/b/c"), "spec.split.label", "should match"},
		{"a label with too long a name", label(strings.Repeat("a", 64)), "spec.split.label", "should match"},
		{"metadata", field(".metadata.name"), "spec.split.field", "should match"},
		{"a status", field(".status.phase"), "spec.split.field", "should match"},
		{"all of spec", field(".spec"), "spec.split.field", "should match"},
		{"too deep", field(".spec.a.b.c.d.e.f.g.h"), "spec.split.field", "should match"},
		{"an index", field(".spec.list[0]"), "spec.split.field", "should match"},
		{"a path without a dot", field("spec.class"), "spec.split.field", "should match"},
		{"an empty value", values(`[""]`), "spec.values[0]", "should match"},
		{"a value that no label has", values(`["a","a/b"]`), "spec.values[1]", "should match"},
		{"a long value", values(`["` + strings.Repeat("a", 64) + `"]`), "spec.values[0]", "63"},
		{"a value twice", values(`["a","a"]`), "spec.values[1]", "Duplicate"},
	})
	const path = "/apis/orrery.dev/v1alpha1/apiexportviews/x"
	h.must(201, h.do("POST", "a", "/apis/orrery.dev/v1alpha1/apiexportviews", `{"apiVersion":"orrery.dev/v1alpha1","kind":"APIExportView","metadata":{"name":"x"},"spec":`+label("tier")+`}`))
	for _, c := range []struct{ patch, field, message string }{
		{`{"spec":{"export":"f"}}`, "spec.export", "a view is of one export: delete it, and create another"},
		{`{"spec":{"split":{"label":"other"}}}`, "spec.split", "slices are by one key: delete the view, and create another"},
		{`{"spec":{"split":{"label":null,"field":".spec.class"}}}`, "spec.split", "slices are by one key: delete the view, and create another"},
	} {
		a := h.do("PATCH", "a", path, c.patch, "Content-Type", merge)
		if got := causesOf(a); a.code != 422 || !strings.Contains(got, c.field+": ") || !strings.Contains(got, c.message) {
			t.Errorf("%s: %d %q", c.patch, a.code, got)
		}
	}
	h.must(200, h.do("PATCH", "a", path, `{"spec":{"values":["gold"]}}`, "Content-Type", merge))
}

// TestBindingsKeepTheirExport: a binding can't turn to another export, nor become one for a
// lower hub while it has something.
func TestBindingsKeepTheirExport(t *testing.T) {
	h := newExportHub(t)
	const path = "/apis/orrery.dev/v1alpha1/apibindings/e"
	for _, c := range []struct{ patch, field, message string }{
		{`{"spec":{"export":{"name":"f"}}}`, "spec.export", "a binding is of one export: delete it, and create another"},
		{`{"spec":{"export":{"space":"b"}}}`, "spec.export", "a binding is of one export: delete it, and create another"},
		{`{"metadata":{"labels":{"orrery.dev/for":"below"}}}`, "metadata.labels[orrery.dev/for]", "the binding already has resources here"},
	} {
		a := h.do("PATCH", "a", path, c.patch, "Content-Type", merge)
		if got := causesOf(a); a.code != 422 || !strings.Contains(got, c.field+": ") || !strings.Contains(got, c.message) {
			t.Errorf("%s: %d %q", c.patch, a.code, got)
		}
	}
	h.must(200, h.do("PATCH", "a", path, `{"spec":{"claims":[{"resource":"secrets","state":"Rejected"}]}}`, "Content-Type", merge))
}

// TestBuiltInNamesAreTaken: what a provider has defined under the names of a kind that is built
// in, as one may have been when that was not yet so, is not bound.
func TestBuiltInNamesAreTaken(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		names    object
		message  string
	}{
		"resource":   {"deployments", object{"kind": "Thing", "listKind": "ThingList", "singular": "thing"}, `the name "deployments" is taken by a kind that is built in`},
		"short name": {"things", object{"kind": "Thing", "listKind": "ThingList", "singular": "thing", "shortNames": []string{"deploy"}}, `the name "deploy" is taken by a kind that is built in`},
		"singular":   {"things", object{"kind": "Thing", "listKind": "ThingList", "singular": "deployment"}, `the name "deployment" is taken by a kind that is built in`},
		"kind":       {"things", object{"kind": "Deployment", "listKind": "ThingList", "singular": "thing"}, `the kind "Deployment" is taken by a kind that is built in`},
		"list kind":  {"things", object{"kind": "Thing", "listKind": "DeploymentList", "singular": "thing"}, `the kind "DeploymentList" is taken by a kind that is built in`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			c.names["plural"] = c.resource
			h.write("b", key.CRDs, c.resource+".apps", object{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"spec": object{"group": "apps", "scope": "Namespaced", "names": c.names, "versions": []any{object{"name": "v1", "served": true, "storage": true,
					"schema": object{"openAPIV3Schema": object{"type": "object"}}}}},
				"status": object{"acceptedNames": c.names, "conditions": []any{object{"type": "Established", "status": "True"}}},
			})
			h.write("b", key.APIExports, "e", object{"spec": object{"resources": []any{object{"group": "apps", "resource": c.resource}}}})
			h.caughtUp()
			a := h.must(201, h.do("POST", "a", "/apis/orrery.dev/v1alpha1/apibindings", object{
				"apiVersion": "orrery.dev/v1alpha1", "kind": "APIBinding", "metadata": object{"name": "e"}, "spec": object{"export": object{"space": "b", "name": "e"}}}))
			if conditions := fmt.Sprint(a.field("status", "conditions")); a.field("status", "resources") != nil || !strings.Contains(conditions, c.message) || !strings.Contains(conditions, "reason:Taken") {
				t.Errorf("bound: %s", a.raw)
			}
			h.must(201, h.do("POST", "a", "/apis/apps/v1/namespaces/default/deployments", object{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d"},
				"spec": object{"selector": object{"matchLabels": object{"a": "b"}}, "template": object{"metadata": object{"labels": object{"a": "b"}}, "spec": object{"containers": []any{object{"name": "c", "image": "i"}}}}}}))
		})
	}
}
