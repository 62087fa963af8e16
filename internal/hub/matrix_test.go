package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// handWritten are Grants of each form there is; random ones come on top.
var handWritten = map[key.Space][]string{
	"a": {
		`{subjects: [{kind: User, name: alice}], roles: [{name: admin}]}`,
		`{subjects: [{kind: User, name: bob}], roles: [{name: edit}]}`,
		`{subjects: [{kind: User, name: carol}], roles: [{name: view}]}`,
		`{subjects: [{kind: User, name: dave}], rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}, {apiGroups: [apps], resources: [deployments/scale], verbs: [update], namespaces: [m1]}]}`,
		`{subjects: [{kind: Group, name: devs}], rules: [{apiGroups: [apps, example.org], resources: ["*"], verbs: ["*"], namespaces: [m1]}]}`,
		`{subjects: [{kind: User, name: erin}], roles: [{name: admin, namespaces: [m1]}, {name: view, namespaces: [m2]}]}`,
		`{subjects: [{kind: User, name: frank}], rules: [{apiGroups: ["*"], resources: ["*/status"], verbs: [get, patch]}, {apiGroups: [""], resources: [secrets], resourceNames: [x], verbs: ["*"]}]}`,
		`{subjects: [{kind: User, name: vic}], rules: [{apiGroups: [orrery.dev], resources: [locations/live], resourceNames: [edge], verbs: [get]}]}`,
		`{subjects: [{kind: User, name: carol}], rules: [{apiGroups: [orrery.dev], resources: [reports/content], resourceNames: [edge], verbs: ["*"]}]}`,
		`{subjects: [{kind: User, name: dave}], rules: [{apiGroups: [orrery.dev], resources: [reports/content], verbs: [list]}]}`,
		`{subjects: [{kind: User, name: frank}], rules: [{apiGroups: ["*"], resources: ["*/content"], verbs: [get, watch]}]}`,
	},
	"b": {
		`{subjects: [{kind: User, name: dave}], roles: [{name: view}]}`,
		`{subjects: [{kind: Group, name: "system:authenticated"}], rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]}`,
	},
	key.Root: {
		`{subjects: [{kind: User, name: rita}], roles: [{name: admin}]}`,
		`{subjects: [{kind: Group, name: ops}], roles: [{name: view}]}`,
		`{subjects: [{kind: Group, name: ops}], roles: [{name: edit}], spaces: {selector: {}}}`,
		`{subjects: [{kind: User, name: olga}], roles: [{name: admin}], spaces: {selector: {}}}`,
		`{subjects: [{kind: User, name: tom}], roles: [{name: edit}], spaces: {selector: {matchLabels: {team: x}}}}`,
		`{subjects: [{kind: User, name: tom}], rules: [{apiGroups: ["*"], resources: ["*"], verbs: [list]}], spaces: {names: [b, root2]}}`,
		`{subjects: [{kind: User, name: tina}], roles: [{name: view}], spaces: {names: [a, b], selector: {matchLabels: {team: x}}}}`,
		`{subjects: [{kind: User, name: pat}], rules: [{nonResourceURLs: [/metrics, "/admin/*"], verbs: [get]}]}`,
		`{subjects: [{kind: User, name: vic}], rules: [{apiGroups: [orrery.dev], resources: [locations/content], resourceNames: [edge], verbs: [get, list]}]}`,
		`{subjects: [{kind: User, name: imp}], rules: [{apiGroups: [""], resources: [users, groups], resourceNames: [carol, dave, devs], verbs: [impersonate]}]}`,
		`{subjects: [{kind: User, name: uid}], rules: [{apiGroups: [""], resources: [users], verbs: [impersonate]}, {apiGroups: [authentication.k8s.io], resources: [uids, userextras/team], resourceNames: [u1, x], verbs: [impersonate]}]}`,
		`{subjects: [{kind: User, name: limited}], rules: [{apiGroups: [authentication.k8s.io], resources: [users], resourceNames: [carol], verbs: ["impersonate:user-info"]}, {apiGroups: [""], resources: [pods], verbs: ["impersonate-on:user-info:list"]}]}`,
		`{subjects: [{kind: User, name: joiner}], rules: [{apiGroups: [orrery.dev], resources: [locations/token], verbs: [create]}]}`,
	},
}

// TestMatrix asks everything as everybody, and compares with what Grants say, read
// slowly by something else.
func TestMatrix(t *testing.T) {
	t.Parallel() // it does one thing after the other
	r := start(t, t.TempDir())
	r.create(key.Root, spacesGVR, object("orrery.dev/v1alpha1", "Space", "", "a", map[string]string{"team": "x"}, nil))
	r.addSpace("b")
	r.addLocation("edge", nil)
	for _, s := range []key.Space{"a", "b"} {
		r.create(s, crdsGVR, widgetDefinition())
	}
	random := seeds.Rand(t, 7)
	truth := oracle{grants: map[key.Space][]v1alpha1.GrantSpec{}, labels: map[string]map[string]string{"a": {"team": "x"}}}
	admin := r.as("admin", "system:masters")
	add := func(s key.Space, spec v1alpha1.GrantSpec) {
		object, err := json.Marshal(v1alpha1.Grant{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(object), `"metadata":{}`, fmt.Sprintf(`"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"name":"g%d"}`, len(truth.grants[s])), 1)
		if code, body := admin.send("POST "+grantsOf(s), text); code != http.StatusCreated {
			t.Fatalf("%s: %d %s", text, code, body)
		}
		truth.grants[s] = append(truth.grants[s], spec)
	}
	for s, specs := range seeds.Ordered(handWritten) {
		for _, text := range specs {
			var spec v1alpha1.GrantSpec
			if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			add(s, spec)
		}
	}
	for range 24 {
		s := pick(random, []key.Space{"a", "b", key.Root})
		add(s, randomGrant(random, s))
	}

	people := []person{
		{name: "alice"}, {name: "bob"}, {name: "carol"}, {name: "dave"}, {name: "dave", groups: []string{"devs"}}, {name: "erin"}, {name: "frank"}, {name: "rita"},
		{name: "olga"}, {name: "op", groups: []string{"ops"}}, {name: "tom"}, {name: "tina"}, {name: "pat"}, {name: "vic"}, {name: "nobody"},
		{name: "minted", groups: []string{"orrery:space:a:edit", "orrery:space:b:view"}}, {name: "orrery:location:edge", groups: []string{"orrery:locations"}},
		{name: "orrery:location:edge"}, {name: "joiner"}, {name: "limited"}, {name: "r1"}, {name: "r2", groups: []string{"rg"}}, {name: "admin", groups: []string{"system:masters"}},
	}
	var work errgroup.Group
	work.SetLimit(8)
	counts := map[bool]int{}
	for _, p := range people {
		p.groups = append(p.groups, "system:authenticated")
		c := r.as(p.name, p.groups[:len(p.groups)-1]...)
		for _, w := range requests(random) {
			want := truth.allows(p, w)
			counts[want]++
			work.Go(func() error { return c.check(p, w, want) })
		}
	}
	for _, a := range []actor{
		{"imp", nil, true}, {"uid", []string{"Impersonate-Uid", "u1", "Impersonate-Extra-Team", "x"}, true}, {"uid", []string{"Impersonate-Uid", "u2"}, false},
		{"imp", []string{"Impersonate-Uid", "u1"}, false}, {"uid", []string{"Impersonate-Extra-Team", "y"}, false},
	} {
		c, user, before := r.as(a.name), person{name: a.name, groups: []string{"system:authenticated"}}, counts[true]
		for _, p := range people {
			header := p.acted(a.header)
			p.groups = append(p.groups, "system:authenticated")
			for _, w := range requests(random)[:seeds.Reduced(40)] {
				want := a.acts && truth.mayActAs(user, p) && truth.allows(p, w)
				counts[want]++
				work.Go(func() error { return c.check(p, w, want, header...) })
			}
		}
		if a.acts != (counts[true] > before) {
			t.Errorf("%s with %q: %d requests were to be allowed", a.name, a.header, counts[true]-before)
		}
	}
	// A user that may list Pods as carol, and nothing else as her.
	carol, limited := person{name: "carol", groups: []string{"system:authenticated"}}, r.as("limited")
	listed := 0
	for _, w := range append(requests(random), wanted{api: "spaces", name: "a", thing: things[0], verb: "list"}) {
		want := w.path == "" && w.thing.resource == "pods" && w.sub == "" && w.verb == "list" && truth.allows(carol, w)
		if counts[want]++; want {
			listed++
		}
		work.Go(func() error { return limited.check(carol, w, want, carol.acted(nil)...) })
	}
	_ = work.Wait() // they say themselves what is wrong
	if listed == 0 {
		t.Error("no request lists Pods as carol")
	}
	t.Logf("asked %d that is allowed, %d that is not", counts[true], counts[false])
	r.reviews(truth, random, people)
}

// actor acts as others, with further headers, if that is granted.
type actor struct {
	name   string
	header []string
	acts   bool
}

// acted returns the impersonation headers for acting as a person.
func (p person) acted(header []string) []string {
	header = append([]string{"Impersonate-User", p.name}, header...)
	for _, group := range p.groups {
		if group != "system:authenticated" {
			header = append(header, "Impersonate-Group", group)
		}
	}
	return header
}

// reviews requests access reviews of all requests, for the user itself and for other users: the results agree
// with the Grants.
func (r *running) reviews(truth oracle, random *rand.Rand, people []person) {
	var work errgroup.Group
	work.SetLimit(8)
	answers := map[bool]int{}
	imp := r.as("imp")
	for _, p := range people {
		var header []string
		c := r.as(p.name, p.groups...)
		if truth.mayActAs(person{name: "imp", groups: []string{"system:authenticated"}}, p) {
			c, header = imp, p.acted(nil)
		}
		p.groups = append(p.groups, "system:authenticated")
		for _, w := range requests(random) {
			if w.api != "spaces" || w.name == "none" {
				continue
			}
			path := w
			path.path, path.verb = "/version", "get"
			may := truth.allows(p, path) // users with any right may send reviews
			writes := !slices.Contains(readVerbs, w.verb) && w.path == ""
			want := truth.allows(p, w) && !(writes && (w.name == "*" || w.thing.resource == "locations" && w.name != "root"))
			answers[want]++
			work.Go(func() error { return c.review(p, w, may, want, header...) })
		}
	}
	_ = work.Wait() // they say themselves what is wrong
	r.t.Logf("reviewed %d that is allowed, %d that is not", answers[true], answers[false])
}

// review requests whether a person may send a request.
func (c client) review(p person, w wanted, may, want bool, header ...string) error {
	spec := map[string]any{"resourceAttributes": map[string]any{
		"verb": w.verb, "group": w.thing.group, "version": w.thing.version, "resource": w.thing.resource, "subresource": w.sub, "namespace": w.namespace, "name": w.object,
	}}
	if w.path != "" {
		spec = map[string]any{"nonResourceAttributes": map[string]any{"verb": w.verb, "path": w.path}}
	}
	request, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec})
	if err != nil {
		return err
	}
	code, body := c.send("POST /spaces/"+w.name+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", string(request), header...)
	if !may {
		if code != http.StatusForbidden {
			c.r.t.Errorf("%s %v asks in %s: %d %s", p.name, p.groups, w.name, code, body)
		}
		return nil
	}
	if code != http.StatusCreated || strings.Contains(body, `"allowed":true`) != want {
		c.r.t.Errorf("%s as %s %v %q: %d %s, want allowed: %v", request, p.name, p.groups, header, code, body, want)
	}
	return nil
}

var crdsGVR = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func pick[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

// some picks up to so many of a list, in its order.
func some(random *rand.Rand, most int, all []string) []string {
	n := 1 + random.IntN(most)
	picked := slices.Clone(all)
	random.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
	return picked[:min(n, len(picked))]
}

func randomGrant(random *rand.Rand, s key.Space) (g v1alpha1.GrantSpec) {
	g.Subjects = []v1alpha1.GrantSubject{pick(random, []v1alpha1.GrantSubject{{Kind: "User", Name: "r1"}, {Kind: "User", Name: "r2"}, {Kind: "Group", Name: "rg"}, {Kind: "User", Name: "nobody2"}})}
	var groups, resources []string
	for _, t := range things {
		groups, resources = append(groups, t.group), append(resources, t.resource, t.resource+"/status")
	}
	slices.Sort(groups)
	groups, resources = append(slices.Compact(groups), "*"), append(resources, "*", "*/status", "*/scale", "locations/content", "reports/content")
	for range 1 + random.IntN(3) {
		rule := v1alpha1.GrantRule{
			Verbs:     some(random, 4, slices.Concat(readVerbs, writeVerbs, []string{"*"})),
			APIGroups: some(random, 3, groups), Resources: some(random, 5, resources),
		}
		if random.IntN(3) == 0 {
			rule.Namespaces = some(random, 2, []string{"m1", "m2", "m3"})
		}
		if random.IntN(4) == 0 {
			rule.ResourceNames = some(random, 2, []string{"x", "y", "edge"})
		}
		g.Rules = append(g.Rules, rule)
	}
	if random.IntN(4) == 0 {
		role := v1alpha1.GrantRole{Name: pick(random, []v1alpha1.RoleName{v1alpha1.RoleView, v1alpha1.RoleEdit, v1alpha1.RoleAdmin})}
		if random.IntN(2) == 0 {
			role.Namespaces = some(random, 2, []string{"m1", "m2"})
		}
		g.Roles = append(g.Roles, role)
	}
	if s == key.Root && random.IntN(2) == 0 {
		g.Spaces = &v1alpha1.SpaceSelector{Names: some(random, 2, []string{"a", "b", "none"})}
	}
	return g
}

// requests are some of all that can be asked, at every root.
func requests(random *rand.Rand) (all []wanted) {
	roots := []wanted{{api: "spaces", name: "*"}, {api: "views", name: "edge"}, {api: "views", name: "other"}}
	for _, s := range spaceNames {
		roots = append(roots, wanted{api: "spaces", name: s})
	}
	verbs := slices.Concat(readVerbs, writeVerbs)
	for _, name := range []string{"a/edge", "b/*", "*/edge", "none/edge"} {
		roots = append(roots, wanted{api: "reports", name: name})
	}
	for _, root := range roots {
		for _, t := range things {
			for range 3 {
				w := root
				w.thing, w.verb, w.object = t, pick(random, verbs), pick(random, []string{"x", "y"})
				w.namespace = pick(random, []string{"m1", "m2"})
				if random.IntN(3) == 0 {
					w.sub = pick(random, []string{"status", "scale", "log"})
				}
				if t.resource == "locations" && random.IntN(2) == 0 {
					w.sub, w.object = pick(random, []string{"token", "content"}), pick(random, []string{"edge", "x"})
				}
				if w = w.possible(); w.api == "reports" && !w.widened() {
					continue
				}
				all = append(all, w)
			}
		}
		for _, path := range []string{"/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/openapi/v2", "/version", "/healthz", "/metrics", "/admin/v1/backup", "/admin/v1/tokens", "/nothing"} {
			w := root
			w.path, w.verb = path, pick(random, []string{"get", "get", "get", "post"})
			all = append(all, w)
		}
	}
	for _, s := range append(slices.Clone(spaceNames), "*") {
		for _, question := range []string{"status", "why", "waiting", "endpoints", "nothing"} {
			all = append(all, wanted{api: "ask", name: s, verb: pick(random, []string{"get", "get", "post", "delete"}), path: question})
		}
	}
	for _, path := range []string{"/metrics", "/admin/v1/nothing", "/admin/v1/tokens", "/admin/v1/tokens/x", "/admin/v1/tokens/x/y", "/version", "/nothing", "/spaces", "/views/locations"} {
		all = append(all, wanted{api: "hub", verb: "get", path: path}, wanted{api: "hub", verb: "post", path: path})
	}
	for _, l := range []string{"edge", "other", "*"} {
		for _, call := range []string{"desired", "walk", "fetch", "lineage", "status", "reports", "reports/walk", "reports/fetch", "nothing"} {
			all = append(all, wanted{api: "agent", name: l, verb: pick(random, []string{"get", "post"}), path: call})
		}
	}
	all = append(all, lookings()...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:seeds.Reduced(len(all))]
}

// lookings ask for what is at locations.
func lookings() (all []wanted) {
	i := slices.IndexFunc(things, func(t thing) bool { return t.resource == "locations" })
	for _, s := range spaceNames {
		all = append(all, wanted{api: "ask", name: s, verb: "get", path: "diff"}, wanted{api: "ask", name: s, verb: "post", path: "diff"})
		for _, sub := range []string{"live", "livesecrets"} {
			for _, object := range []string{"edge", "x"} {
				all = append(all, wanted{api: "spaces", name: s, thing: things[i], verb: "get", object: object, sub: sub})
			}
		}
	}
	return all
}

// widened has the names of a view of reports be those of its objects; false for a kind whose
// names say less.
func (w *wanted) widened() bool {
	space, location, _ := strings.Cut(w.name, "/")
	if w.thing.resource == "namespaces" && w.object != "" && (space == "*" || location == "*") {
		return false
	}
	switch {
	case space != "*":
	case w.namespace != "":
		w.namespace = "a--" + w.namespace
	case w.object != "" && !w.thing.namespaced:
		w.object = "a--" + w.object
	}
	if location == "*" && w.object != "" {
		w.object = "edge." + w.object
	}
	return true
}

// possible is the request as it can be sent: what is listed has no name, say.
func (w wanted) possible() wanted {
	if slices.Contains([]string{"list", "watch", "create", "deletecollection"}, w.verb) && !(w.verb == "create" && w.sub == "token") {
		w.object, w.sub = "", ""
	}
	if !w.thing.namespaced {
		w.namespace = ""
	}
	if w.thing.resource == "namespaces" { // a Namespace is in itself, and below it are objects, but for this
		w.namespace = w.object
		if w.sub != "" {
			w.sub = "status"
		}
	}
	return w
}

var methods = map[string]string{
	"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE", "post": "POST",
}

// url is the request as it is sent.
func (w wanted) url() string {
	if w.api == "reports" {
		space, location, _ := strings.Cut(w.name, "/")
		w.api, w.name = "", "/views/reports/spaces/"+space+"/locations/"+location
	}
	roots := map[string]string{"spaces": "/spaces/", "views": "/views/locations/", "ask": "/ask/v1/spaces/", "agent": "/agent/v1/locations/"}
	switch {
	case w.api == "hub":
		return w.path
	case w.path != "":
		return roots[w.api] + w.name + "/" + strings.TrimPrefix(w.path, "/")
	}
	path := roots[w.api] + w.name + "/api/" + w.thing.version
	if w.thing.group != "" {
		path = roots[w.api] + w.name + "/apis/" + w.thing.group + "/" + w.thing.version
	}
	if w.namespace != "" && w.thing.resource != "namespaces" {
		path += "/namespaces/" + w.namespace
	}
	path += "/" + w.thing.resource
	if w.object != "" {
		path += "/" + w.object
	}
	if w.sub != "" {
		path += "/" + w.sub
	}
	if w.verb == "watch" {
		path += "?watch=true"
	}
	return path
}

// check sends a request, which must be refused with 403 if and only if it is not allowed. It changes nothing, since the
// written object is invalid.
func (c client) check(p person, w wanted, want bool, header ...string) error {
	ctx, cancel := context.WithCancel(c.r.t.Context())
	defer cancel()
	request := methods[w.verb] + " " + w.url()
	if w.verb == "deletecollection" {
		request += "?labelSelector=nobody=has"
	}
	if w.path == "/openapi/v2" { // many megabytes, and made for each answer where there are CRDs
		header = append(slices.Clone(header), "Accept", "none/none")
	}
	resp := c.open(ctx, request, "{", header...)
	defer func() { _ = resp.Body.Close() }()
	if got := resp.StatusCode != http.StatusForbidden; got != want || resp.StatusCode == http.StatusUnauthorized {
		c.r.t.Errorf("%s as %s %v %q: %d, want allowed: %v", request, p.name, p.groups, header, resp.StatusCode, want)
	}
	return nil
}

func widgetDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.org"},
		"spec": map[string]any{
			"group": "example.org", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
}
