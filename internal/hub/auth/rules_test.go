package auth

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	authorizationv1 "k8s.io/api/authorization/v1"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/seeds"
)

// TestRulesAreExact: a review of rules lists exactly the rights that the authorizer allows, for
// each kind and verb.
func TestRulesAreExact(t *testing.T) {
	w := newWorld(t)
	w.space("a", "team=x")
	for s, specs := range seeds.Ordered(map[key.Space][]string{
		"a": {
			`{subjects: [{kind: User, name: view}], roles: [{name: view}]}`,
			`{subjects: [{kind: User, name: edit}], roles: [{name: edit}]}`,
			`{subjects: [{kind: User, name: admin}], roles: [{name: admin}]}`,
			`{subjects: [{kind: User, name: some}], roles: [{name: edit, namespaces: [m]}, {name: view, namespaces: [other]}]}`,
			`{subjects: [{kind: User, name: local}], roles: [{name: admin, namespaces: [m]}]}`,
			`{subjects: [{kind: User, name: rules}], rules: [{apiGroups: [apps], resources: ["*"], verbs: [get, create]}, {apiGroups: [""], resources: [pods], verbs: ["*"], namespaces: [other]}, {apiGroups: [""], resources: [secrets], verbs: [list], namespaces: [m]}]}`,
		},
		key.Root: {
			`{subjects: [{kind: User, name: admin}], roles: [{name: admin}]}`,
			`{subjects: [{kind: User, name: reach}], roles: [{name: view}], spaces: {selector: {matchLabels: {team: x}}}}`,
			`{subjects: [{kind: User, name: all}], roles: [{name: edit}], spaces: {selector: {}}}`,
			`{subjects: [{kind: User, name: all}], roles: [{name: view}], rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}`,
		},
	}) {
		for i, spec := range specs {
			w.grant(s, string(rune('a'+i)), spec)
		}
	}
	people := []user.Info{named("nobody"), named("minted", "orrery:space:a:edit"), named("root", user.SystemPrivilegedGroup)}
	for _, name := range []string{"view", "edit", "admin", "some", "local", "rules", "reach", "all"} {
		people = append(people, named(name))
	}
	for _, root := range []key.Space{"a", key.Root, key.AllSpaces} {
		catalog := w.decides.catalog(root)
		if root == key.AllSpaces {
			catalog = w.decides.catalog(key.Root)
		}
		for _, who := range people {
			w.compare(root, catalog, who)
		}
	}
}

// compare checks each kind of a catalog, separately and together.
func (w *world) compare(s key.Space, catalog *kinds.Catalog, who user.Info) {
	w.t.Helper()
	status := w.decides.rulesFor(route.Space(s), catalog, who, "m")
	var rules []rbacv1.PolicyRule
	for _, r := range status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	for _, r := range status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	check := func(request rbacv1.PolicyRule, a authorizer.AttributesRecord) {
		w.t.Helper()
		a.User, a.Verb = who, request.Verbs[0]
		may := w.decides.mayAll(who) && (s != key.AllSpaces || slices.Contains(reads, a.Verb))
		if !w.decides.mayAll(who) {
			_, may = w.decides.decide(route.Space(s), a)
		}
		if listed, _ := validation.Covers(rules, []rbacv1.PolicyRule{request}); listed != may {
			w.t.Errorf("%s in %s: %+v is listed: %v, is allowed: %v", who.GetName(), s, request, listed, may)
		}
	}
	for _, k := range catalog.Kinds() {
		namespace := ""
		if k.Namespaced || k.Resource == key.Namespaces { // Namespaces are in themselves
			namespace = "m"
		}
		verbs := slices.Concat(reads, writes)
		if catalog.Access(k) == kinds.Review {
			verbs = []string{"create"}
		}
		for _, verb := range verbs {
			if s == key.AllSpaces && catalog.Access(k) == kinds.Review && w.decides.mayAll(who) {
				continue // administrators may write, although the rules list only reads
			}
			check(rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{k.GVR.Group}, Resources: []string{k.GVR.Resource}},
				authorizer.AttributesRecord{APIGroup: k.GVR.Group, Resource: k.GVR.Resource, Namespace: namespace, ResourceRequest: true})
		}
	}
	for _, path := range []string{"/", "/api", "/apis/apps", "/version", "/openapi/v3/x", "/metrics", "/admin"} {
		check(rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{path}}, authorizer.AttributesRecord{Path: path})
	}
	if strings.HasPrefix(who.GetName(), "nobody") && !isEmpty(status) {
		w.t.Errorf("nobody may %+v", status)
	}
}

func isEmpty(s authorizationv1.SubjectRulesReviewStatus) bool {
	return len(s.ResourceRules) == 0 && len(s.NonResourceRules) == 0
}
