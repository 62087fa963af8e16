package auth

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// exportViewRequests returns requests for each verb, and the same for subresources.
func exportViewRequests() map[string][]string {
	const all, one = "/apis/example.org/v1/namespaces/n/widgets", "/apis/example.org/v1/namespaces/n/widgets/w"
	return map[string][]string{
		"get": {"GET " + one, "GET " + one + "/status"}, "list": {"GET " + all, "GET /apis/example.org/v1/widgets"},
		"watch": {"GET " + all + "?watch=1", "GET /apis/example.org/v1/watch/widgets"}, "create": {"POST " + all},
		"update": {"PUT " + one, "PUT " + one + "/status"}, "patch": {"PATCH " + one, "PATCH " + one + "/scale"},
		"delete": {"DELETE " + one}, "deletecollection": {"DELETE " + all},
	}
}

// below returns a request METHOD PATH below a root.
func below(root route.Root, request string) string {
	var method, path string
	if _, err := fmt.Sscan(request, &method, &path); err != nil {
		panic(err)
	}
	return method + " " + root.String() + path
}

// TestExportViewsVerbByVerb: each verb on each export view needs the right to it, for the objects of
// one space as for those of all. A right to one export view is no right to another.
func TestExportViewsVerbByVerb(t *testing.T) {
	w := newWorld(t)
	w.space("p", "team=x")
	jane := named("jane")
	exportViews := map[key.ExportView]string{
		{Space: "p", Name: "e"}:                         `resources: [apiexports/content], resourceNames: [e]`,
		{Space: "p", Name: "v", View: true, Value: "a"}: `resources: [apiexportviews/content], resourceNames: ["v:a"]`,
		{Space: "p", Name: "v", View: true}:             `resources: [apiexportviews/content], resourceNames: ["v:"]`,
	}
	others := []key.ExportView{{Space: "q", Name: "e"}, {Space: "p", Name: "v"}, {Space: "p", Name: "e", View: true}, {Space: "p", Name: "v", View: true, Value: "b"}}
	for f := range exportViews {
		others = append(others, f)
	}
	for view, rule := range exportViews {
		for granted := range exportViewRequests() {
			w.grant("p", "g", fmt.Sprintf(`{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], %s, verbs: [%s]}]}`, rule, granted))
			for verb, requests := range exportViewRequests() {
				for _, r := range requests {
					for _, f := range others {
						for _, s := range []key.Space{key.AllSpaces, "c", "p", key.Root} {
							want := http.StatusForbidden
							if f == view && verb == granted {
								want = http.StatusOK
							}
							if code := w.code(jane, below(route.ExportViewRoot(f, s), r)); code != want {
								t.Errorf("%s of %s granted: %s: %d", granted, view, below(route.ExportViewRoot(f, s), r), code)
							}
						}
					}
				}
			}
		}
	}
}

// TestExportViewsByGrant lists other rights that include an export view, and rights that do not.
func TestExportViewsByGrant(t *testing.T) {
	w := newWorld(t)
	w.space("p", "team=x")
	const widgets, slice = "/views/exports/p/e/spaces/*", "/views/slices/p/v/values/a/spaces/c"
	for _, c := range []struct {
		in      key.Space
		spec    string
		yes, no []string
	}{
		{in: "p", spec: `rules: [{apiGroups: [orrery.dev], resources: [apiexports/content], verbs: [watch]}]`,
			yes: []string{"GET " + widgets + "/api", "GET " + widgets + "/apis/example.org/v1", "GET " + widgets + "/openapi/v3", "GET " + widgets + "/version", "GET " + widgets,
				"POST " + widgets + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "GET /views/exports/p/other/spaces/c/api/v1/secrets?watch=1"},
			no: []string{"GET " + slice + "/api", "POST " + widgets + "/api", "GET " + widgets + "/metrics", "GET " + widgets + "/api/v1/secrets", "GET /views/exports/p/e/apis",
				"GET /views/exports/*/e/spaces/*/apis", "GET " + widgets + "/apis/orrery.dev/v1alpha1/locations", "GET /spaces/c/api/v1/secrets?watch=1", "GET /spaces/p/api/v1/secrets",
				"POST /views/exports/p/e/spaces/c/api/v1/namespaces/n/serviceaccounts/x/token"}},
		{in: "p", spec: `roles: [{name: admin}]`,
			yes: []string{"GET " + widgets + "/api/v1/secrets", "DELETE " + slice + "/api/v1/namespaces/n/secrets"}, no: []string{"GET /spaces/c/api/v1/secrets"}},
		{in: "p", spec: `roles: [{name: edit}]`, no: []string{"GET " + widgets + "/apis", "GET " + widgets + "/api/v1/pods", "POST " + slice + "/api/v1/namespaces/n/secrets"}},
		{in: "p", spec: `roles: [{name: view}]`, no: []string{"GET " + widgets + "/apis", "GET " + slice + "/api/v1/pods"}},
		{in: "p", spec: `roles: [{name: admin, namespaces: [n]}]`, no: []string{"GET " + widgets + "/api/v1/namespaces/n/pods"}},
		{in: "c", spec: `roles: [{name: admin}]`, no: []string{"GET /views/exports/p/e/spaces/c/api/v1/pods", "GET " + slice + "/apis"}},
		{in: "p", spec: `rules: [{apiGroups: [orrery.dev], resources: [apiexports, apiexportviews], verbs: ["*"]}]`, no: []string{"GET " + widgets + "/api/v1/pods", "GET " + slice + "/apis"}},
		{in: "p", spec: `rules: [{apiGroups: [orrery.dev], resources: [apiexports/content], verbs: ["*"], namespaces: [n]}]`, no: []string{"GET " + widgets + "/api/v1/namespaces/n/pods"}},
		{in: key.Root, spec: `spaces: {selector: {matchLabels: {team: x}}}, rules: [{apiGroups: [orrery.dev], resources: ["*/content"], verbs: [get, create]}]`,
			yes: []string{"GET " + widgets + "/api/v1/namespaces/n/secrets/s", "POST " + slice + "/api/v1/namespaces/n/secrets"}, no: []string{"GET " + widgets + "/api/v1/secrets"}},
		{in: key.Root, spec: `roles: [{name: admin}]`, no: []string{"GET " + widgets + "/api/v1/secrets"}},
	} {
		w.grant(c.in, "g", `{subjects: [{kind: User, name: jane}], `+c.spec+`}`)
		for want, requests := range map[int][]string{http.StatusOK: c.yes, http.StatusForbidden: c.no} {
			for _, r := range requests {
				if code := w.code(named("jane"), r); code != want {
					t.Errorf("%s in %s: %s: %d", c.spec, c.in, r, code)
				}
			}
		}
		w.grant(c.in, "g", "")
	}
	if code := w.code(admin, "GET "+widgets+"/api/v1/secrets"); code != http.StatusOK {
		t.Errorf("an operator: %d", code)
	}
}

// TestExportViewsAreConditions: a stream of an export view depends on the Grant.
func TestExportViewsAreConditions(t *testing.T) {
	w := newWorld(t)
	const spec = `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], resources: [apiexportviews/content], resourceNames: [%q], verbs: [watch]}]}`
	w.grant("p", "g", fmt.Sprintf(spec, "v:a"))
	jane := sender{Info: named("jane"), t: t, authorizer: w.decides}
	conditions := jane.conditions("GET", "/views/slices/p/v/values/a/spaces/*/apis/example.org/v1/widgets?watch=1")
	if len(conditions) != 1 {
		t.Fatalf("rests on %+v", conditions)
	}
	for _, c := range []struct {
		spec string
		want bool
	}{{fmt.Sprintf(spec, "v:a"), true}, {fmt.Sprintf(spec, "v:b"), false}, {fmt.Sprintf(spec, "v:a"), true}, {"", false}} {
		w.grant("p", "g", c.spec)
		if row, _ := w.table.Get(conditions[0].Key); conditions[0].IsMet(row) != c.want {
			t.Errorf("%s: want %v", c.spec, c.want)
		}
	}
}

// TestReviewsOfExportViews: in an export view, no user may do more than is exported or claimed.
func TestReviewsOfExportViews(t *testing.T) {
	builtin, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.grant("p", "g", `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], resources: [apiexports/content], verbs: [list, create]}]}`)
	claimed := func(_ key.ExportView, s key.Space, r key.Resource, verb string) bool {
		return r == key.NewResource("", "secrets") && (verb == "list" || s == "c" && verb != "delete") || r.Group == "example.org"
	}
	secrets := slices.DeleteFunc(slices.Clone(builtin.Builtin("a").Kinds()), func(k *kinds.Kind) bool { return k.GVR.Resource != "secrets" })
	review := func(s key.Space) reviewRequest {
		catalog := kinds.NewCatalog(secrets, nil)
		return reviewRequest{&reviewer{catalog: catalog, authorizer: w.decides, allowed: claimed}, route.ExportViewRoot(key.ExportView{Space: "p", Name: "e"}, s)}
	}
	for _, c := range []struct {
		space                 key.Space
		verb, group, resource string
		may                   bool
	}{
		{"*", "list", "", "secrets", true}, {"*", "create", "", "secrets", false}, {"c", "create", "", "secrets", true}, {"c", "get", "", "secrets", false},
		{"c", "list", "", "configmaps", false}, {"c", "create", "example.org", "widgets", true}, {"c", "delete", "example.org", "widgets", false},
		{"c", "create", "authorization.k8s.io", "selfsubjectaccessreviews", true}, {"c", "*", "*", "*", false},
	} {
		r := &authorizationv1.SelfSubjectAccessReview{}
		r.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: c.verb, Group: c.group, Resource: c.resource}
		if sendReview(t, review(c.space), named("jane"), r); r.Status.Allowed != c.may {
			t.Errorf("%+v: %+v", c, r.Status)
		}
	}
	rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}}
	sendReview(t, review("c"), named("jane"), rules)
	if all := rules.Status.ResourceRules; len(all) != 3 || !slices.Equal(all[0].Resources, []string{"secrets"}) || !slices.Equal(all[0].Verbs, []string{"list", "create"}) {
		t.Errorf("rules: %+v", all)
	}
	rules = &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}}
	if sendReview(t, review("c"), named("joe"), rules); len(rules.Status.ResourceRules)+len(rules.Status.NonResourceRules) != 0 {
		t.Errorf("rules of another: %+v", rules.Status)
	}
}
