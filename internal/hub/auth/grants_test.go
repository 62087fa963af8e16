package auth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// world is a table with spaces and Grants, and an Authorizer for it.
type world struct {
	t       *testing.T
	table   *table.Writer
	grants  *Grants
	decides *Authorizer
	rev     int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kinds, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, grants: NewGrants(), rev: 1}
	w.table = table.New(table.Config{Observer: w.grants, WindowSteps: 100, WindowBytes: 1 << 20})
	w.table.Reset(1, nil)
	w.decides = &Authorizer{grants: w.grants, table: w.table.Table, catalog: kinds.Builtin}
	return w
}

// put writes an object, or deletes it if it is nil.
func (w *world) put(o key.Object, value []byte) {
	w.t.Helper()
	w.rev++
	if err := w.table.Apply(w.rev, []table.Update{{Key: o.Key(), Value: value, CreateRev: w.rev, ModRev: w.rev}}); err != nil {
		w.t.Fatal(err)
	}
}

func objectIn(s key.Space, r key.Resource, name string) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: r, Name: name}}
}

// space creates a space with labels, KEY=VALUE.
func (w *world) space(s key.Space, labels string) {
	w.t.Helper()
	k, v, _ := strings.Cut(labels, "=")
	w.put(objectIn(key.Root, key.Spaces, string(s)), fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":"u","labels":{%q:%q}}}`, s, k, v))
}

// grant writes a Grant with a spec; an empty spec deletes it.
func (w *world) grant(s key.Space, name, spec string) {
	w.t.Helper()
	if spec == "" {
		w.put(objectIn(s, key.Grants, name), nil)
		return
	}
	g := v1alpha1.Grant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &g.Spec); err != nil {
		w.t.Fatalf("%s: %v", spec, err)
	}
	value, err := json.Marshal(g)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(objectIn(s, key.Grants, name), value)
}

// code returns the status code for a user's request, METHOD PATH.
func (w *world) code(who user.Info, request string, header ...string) int {
	w.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	code, _ := sender{Info: who, t: w.t, authorizer: w.decides}.send(method, path, header...)
	return code
}

func named(name string, groups ...string) *user.DefaultInfo {
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

// TestGrants: Grants allow exactly their rights, in the spaces that they apply to.
func TestGrants(t *testing.T) {
	w := newWorld(t)
	w.space("a", "team=x")
	w.space("b", "team=y")
	for _, c := range []struct {
		in       key.Space
		spec     string
		yes, no  []string
		inGroups []string
	}{
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]}`,
			yes: []string{"GET /spaces/a/api/v1/pods", "GET /spaces/a/api/v1/namespaces/n/pods/p", "GET /spaces/a/version", "GET /spaces/a/apis/apps/v1", "GET /spaces/a",
				"GET /spaces/a/apis/orrery.dev/v1alpha1/locations", "POST /spaces/a/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "GET /ask/v1/spaces/a/status"},
			no: []string{"GET /spaces/a/api/v1/pods?watch=1", "GET /spaces/a/api/v1/namespaces/n/pods/p/log", "POST /spaces/a/api/v1/namespaces/n/pods", "GET /spaces/a/api/v1/secrets",
				"GET /spaces/b/api/v1/pods", "GET /spaces/b/version", "GET /spaces/none/version", "GET /spaces/*/api/v1/pods", "GET /spaces/*/version", "GET /version", "GET /metrics",
				"GET /ask/v1/spaces/b/status", "POST /ask/v1/spaces/a/status", "GET /views/locations/l/api", "GET /agent/v1/locations/l/desired", "POST /spaces/a/version",
				"POST /spaces/b/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "DELETE /spaces/a/apis/orrery.dev/v1alpha1/locations"}},
		{in: "a", spec: `{subjects: [{kind: Group, name: devs}], rules: [{apiGroups: [apps], resources: ["*/scale"], resourceNames: [web], verbs: ["*"], namespaces: ["n"]}]}`, inGroups: []string{"devs"},
			yes: []string{"PATCH /spaces/a/apis/apps/v1/namespaces/n/deployments/web/scale", "PUT /spaces/a/apis/apps/v1/namespaces/n/statefulsets/web/scale"},
			no: []string{"PATCH /spaces/a/apis/apps/v1/namespaces/n/deployments/web", "PATCH /spaces/a/apis/apps/v1/namespaces/m/deployments/web/scale",
				"PATCH /spaces/a/apis/apps/v1/namespaces/n/deployments/other/scale", "PATCH /spaces/b/apis/apps/v1/namespaces/n/deployments/web/scale"}},
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], roles: [{name: view}]}`,
			yes: []string{"GET /spaces/a/api/v1/pods", "GET /spaces/a/api/v1/namespaces", "GET /spaces/a/apis/example.org/v1/widgets", "GET /spaces/a/apis/orrery.dev/v1alpha1/placements"},
			no:  []string{"GET /spaces/a/api/v1/secrets", "GET /spaces/a/api/v1/namespaces/n/secrets/s", "GET /spaces/a/apis/orrery.dev/v1alpha1/grants", "DELETE /spaces/a/api/v1/namespaces/n/pods/p"}},
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], roles: [{name: edit}]}`,
			yes: []string{"GET /spaces/a/api/v1/secrets", "PUT /spaces/a/api/v1/namespaces/n/secrets/s", "POST /spaces/a/api/v1/namespaces", "DELETE /spaces/a/apis/apps/v1/namespaces/n/deployments",
				"PATCH /spaces/a/apis/example.org/v1/namespaces/n/widgets/w/status"},
			no: []string{"GET /spaces/a/apis/orrery.dev/v1alpha1/grants", "POST /spaces/a/apis/orrery.dev/v1alpha1/placements", "POST /spaces/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
				"POST /spaces/a/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles", "DELETE /spaces/a/api/v1/namespaces/n/resourcequotas/q", "POST /spaces/a/apis/example.org/v1/widgets"}},
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], roles: [{name: admin}]}`,
			yes: []string{"POST /spaces/a/apis/orrery.dev/v1alpha1/grants", "DELETE /spaces/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x"},
			no:  []string{"GET /spaces/b/api/v1/pods", "GET /spaces/root/api/v1/pods", "GET /metrics"}},
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], roles: [{name: admin, namespaces: ["n"]}]}`,
			yes: []string{"POST /spaces/a/api/v1/namespaces/n/secrets", "GET /spaces/a/api/v1/namespaces/n", "PUT /spaces/a/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r"},
			no: []string{"DELETE /spaces/a/api/v1/namespaces/n", "GET /spaces/a/api/v1/secrets", "GET /spaces/a/api/v1/namespaces/m/secrets", "POST /spaces/a/api/v1/namespaces",
				"POST /spaces/a/apis/orrery.dev/v1alpha1/grants"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], roles: [{name: admin}]}`,
			yes: []string{"POST /spaces/root/apis/orrery.dev/v1alpha1/spaces", "POST /spaces/root/apis/orrery.dev/v1alpha1/locations/l/token", "GET /views/locations/l/api/v1/secrets"},
			no:  []string{"GET /spaces/a/api/v1/pods", "GET /spaces/*/api/v1/pods", "GET /metrics", "GET /admin/v1/backup", "POST /agent/v1/locations/l/reports"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], roles: [{name: view}], spaces: {selector: {matchLabels: {team: x}}}}`,
			yes: []string{"GET /spaces/a/api/v1/pods"},
			no:  []string{"GET /spaces/b/api/v1/pods", "GET /spaces/root/api/v1/pods", "GET /spaces/none/api/v1/pods", "GET /spaces/*/api/v1/pods"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], roles: [{name: view}], spaces: {names: [b]}}`,
			yes: []string{"GET /spaces/b/api/v1/pods"}, no: []string{"GET /spaces/a/api/v1/pods", "GET /spaces/root/api/v1/pods", "GET /spaces/*/api/v1/pods"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], roles: [{name: view}], spaces: {selector: {}}}`,
			yes: []string{"GET /spaces/b/api/v1/pods", "GET /spaces/a/api/v1/pods", "GET /spaces/none/api/v1/pods"},
			no:  []string{"GET /spaces/root/api/v1/pods", "GET /spaces/*/api/v1/pods", "GET /spaces/*/version"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], rules: [{nonResourceURLs: [/metrics, "/admin/*"], verbs: [get]}]}`,
			yes: []string{"GET /metrics", "GET /admin/v1/backup"}, no: []string{"POST /metrics", "GET /metrics/", "GET /version", "GET /spaces/root/version", "GET /spaces/a/version"}},
		{in: "a", spec: `{subjects: [{kind: User, name: jane}], rules: [{nonResourceURLs: ["*"], verbs: ["*"]}]}`, // which can't be written
			no: []string{"GET /metrics", "GET /spaces/a/metrics", "GET /spaces/a/version"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], resources: [locations/content], resourceNames: [l], verbs: [get, list]}]}`,
			yes: []string{"GET /views/locations/l/api/v1/secrets", "GET /views/locations/l/apis"},
			no:  []string{"GET /views/locations/l/api/v1/secrets?watch=1", "GET /views/locations/m/api/v1/secrets", "POST /views/locations/l/api/v1/namespaces/n/secrets", "GET /agent/v1/locations/l/desired"}},
		{in: key.Root, spec: `{subjects: [{kind: User, name: jane}], roles: [{name: edit}]}`,
			no: []string{"GET /views/locations/l/api/v1/secrets", "POST /spaces/root/apis/orrery.dev/v1alpha1/locations/l/token"}},
	} {
		w.grant(c.in, "g", c.spec)
		jane := named("jane", c.inGroups...)
		for _, r := range c.yes {
			if code := w.code(jane, r); code != http.StatusOK {
				t.Errorf("%s in %s: %s: %d", c.spec, c.in, r, code)
			}
			if code := w.code(named("joe"), r); code != http.StatusForbidden {
				t.Errorf("%s in %s: %s of another: %d", c.spec, c.in, r, code)
			}
		}
		for _, r := range c.no {
			if code := w.code(jane, r); code != http.StatusForbidden {
				t.Errorf("%s in %s: %s: %d", c.spec, c.in, r, code)
			}
		}
		w.grant(c.in, "g", "")
		for _, r := range c.yes {
			if code := w.code(jane, r); code != http.StatusForbidden {
				t.Errorf("%s in %s: %s once it is gone: %d", c.spec, c.in, r, code)
			}
		}
	}
}

// TestAllSpacesAtOnce: reads of all spaces need the right in root and in all other spaces.
func TestAllSpacesAtOnce(t *testing.T) {
	w := newWorld(t)
	jane := named("jane")
	w.grant(key.Root, "there", `{subjects: [{kind: User, name: jane}], roles: [{name: admin}], spaces: {selector: {}}}`)
	w.grant(key.Root, "here", `{subjects: [{kind: User, name: jane}], roles: [{name: view}]}`)
	for request, want := range map[string]int{
		"GET /spaces/*/api/v1/pods": http.StatusOK, "GET /spaces/*/apis": http.StatusOK, "GET /spaces/*/api/v1/secrets": http.StatusForbidden,
		"DELETE /spaces/*/api/v1/namespaces/n/pods/p": http.StatusForbidden,
	} {
		if code := w.code(jane, request); code != want {
			t.Errorf("%s: %d, want %d", request, code, want)
		}
	}
}

// TestSpaceGroups: a group with the name of a space and a role has that role there.
func TestSpaceGroups(t *testing.T) {
	w := newWorld(t)
	for request, want := range map[string]int{
		"GET /spaces/a/api/v1/pods": http.StatusOK, "GET /spaces/a/version": http.StatusOK, "GET /ask/v1/spaces/a/status": http.StatusOK,
		"GET /spaces/a/api/v1/secrets": http.StatusForbidden, "GET /spaces/b/api/v1/pods": http.StatusForbidden, "GET /spaces/*/api/v1/pods": http.StatusForbidden,
	} {
		if code := w.code(named("jane", "orrery:space:a:view"), request); code != want {
			t.Errorf("%s: %d, want %d", request, code, want)
		}
	}
	for _, group := range []string{"orrery:space:a:owner", "orrery:space:a", "orrery:space::view", "orrery:space:*:admin", "orrery:space:b:a:admin"} {
		if code := w.code(named("jane", group), "GET /spaces/a/version"); code != http.StatusForbidden {
			t.Errorf("group %s: %d", group, code)
		}
	}
}

// TestActingAsByGrants: only Grants of root allow impersonation. An impersonating user has the
// rights of the impersonated one.
func TestActingAsByGrants(t *testing.T) {
	w := newWorld(t)
	const mine = `{subjects: [{kind: User, name: joe}], rules: [{apiGroups: [""], resources: [users], resourceNames: [jane], verbs: [impersonate]}]}`
	const admin = `{subjects: [{kind: User, name: joe}], roles: [{name: admin}]}`
	w.grant("a", "jane", `{subjects: [{kind: User, name: jane}], roles: [{name: view}]}`)
	w.grant("a", "joe", admin)
	as := func(path string, header ...string) int { return w.code(named("joe"), "GET "+path, header...) }
	jane := []string{"Impersonate-User", "jane"}
	if code := as("/spaces/a/api/v1/pods", jane...); code != http.StatusForbidden {
		t.Errorf("an admin of a space acts as sender: %d", code)
	}
	w.grant("a", "mine", mine)
	w.grant(key.Root, "joe", admin)
	if code := as("/spaces/a/api/v1/pods", jane...); code != http.StatusForbidden {
		t.Errorf("by a Grant of the space, and as an admin of root: %d", code)
	}
	w.grant(key.Root, "mine", mine)
	for _, c := range []struct {
		path   string
		header []string
		code   int
	}{
		{"/spaces/a/api/v1/pods", jane, http.StatusOK},
		{"/spaces/a/api/v1/secrets", jane, http.StatusForbidden}, // joe might read it
		{"/spaces/root/api/v1/pods", jane, http.StatusForbidden},
		{"/spaces/a/api/v1/pods", []string{"Impersonate-User", "jim"}, http.StatusForbidden},
		{"/spaces/a/api/v1/pods", append([]string{"Impersonate-Group", user.SystemPrivilegedGroup}, jane...), http.StatusForbidden},
		{"/spaces/a/api/v1/pods", append([]string{"Impersonate-Uid", "1"}, jane...), http.StatusForbidden},
		{"/spaces/a/api/v1/pods", append([]string{"Impersonate-Extra-Scopes", "x"}, jane...), http.StatusForbidden},
	} {
		if code := as(c.path, c.header...); code != c.code {
			t.Errorf("%s as %q: %d, want %d", c.path, c.header, code, c.code)
		}
	}
	w.grant(key.Root, "mine", `{subjects: [{kind: User, name: joe}], rules: [
		{apiGroups: [authentication.k8s.io], resources: [users], resourceNames: [jane], verbs: ["impersonate:user-info"]},
		{apiGroups: [""], resources: [pods], verbs: ["impersonate-on:user-info:list"]}]}`)
	if list, get := as("/spaces/a/api/v1/pods", jane...), as("/spaces/a/api/v1/namespaces/n/pods/p", jane...); list != http.StatusOK || get != http.StatusForbidden {
		t.Errorf("constrained to lists: list %d, get %d", list, get)
	}
	w.grant(key.Root, "mine", "")
	if code := as("/spaces/a/api/v1/pods", jane...); code != http.StatusForbidden {
		t.Errorf("once that is revoked: %d", code)
	}
}

// TestGrantsAreConditions: a stream that a Grant allows depends on it, and on the space labels by
// which it applies, and on nothing else.
func TestGrantsAreConditions(t *testing.T) {
	const pods = `rules: [{apiGroups: [""], resources: [pods], verbs: [watch]}]`
	const spec = `{subjects: [{kind: Group, name: devs}], ` + pods
	w := newWorld(t)
	w.space("a", "team=x")
	w.grant(key.Root, "g", spec+`, spaces: {selector: {matchLabels: {team: x}}}}`)
	isMet := func() bool {
		conditions := sender{Info: named("jane", "devs"), t: t, authorizer: w.decides}.conditions("GET", "/spaces/a/api/v1/pods?watch=1")
		if len(conditions) != 2 {
			t.Fatalf("rests on %+v", conditions)
		}
		return true
	}
	isMet()
	conditions := sender{Info: named("jane", "devs"), t: t, authorizer: w.decides}.conditions("GET", "/spaces/a/api/v1/pods?watch=1")
	still := func() bool {
		for _, p := range conditions {
			if row, _ := w.table.Get(p.Key); !p.IsMet(row) {
				return false
			}
		}
		return true
	}
	reach := `, spaces: {selector: {matchLabels: {team: x}}}}`
	for _, c := range []struct {
		what string
		do   func()
		want bool
	}{
		{"nothing", func() {}, true},
		{"more is allowed", func() {
			w.grant(key.Root, "g", `{subjects: [{kind: User, name: x}, {kind: Group, name: devs}], roles: [{name: view}], spaces: {selector: {}}}`)
		}, true},
		{"as before", func() { w.grant(key.Root, "g", spec+reach) }, true},
		{"another label", func() { w.space("a", "team=y") }, false},
		{"the label again", func() { w.space("a", "team=x") }, true},
		{"the space is gone", func() { w.put(objectIn(key.Root, key.Spaces, "a"), nil) }, false},
		{"it is there again", func() { w.space("a", "team=x") }, true},
		{"another subject", func() { w.grant(key.Root, "g", strings.Replace(spec, "devs", "ops", 1)+reach) }, false},
		{"as before again", func() { w.grant(key.Root, "g", spec+reach) }, true},
		{"other verbs", func() { w.grant(key.Root, "g", strings.Replace(spec, "watch", "list", 1)+reach) }, false},
		{"another reach", func() { w.grant(key.Root, "g", spec+`, spaces: {names: [b]}}`) }, false},
		{"only root", func() { w.grant(key.Root, "g", spec+`}`) }, false},
		{"gone", func() { w.grant(key.Root, "g", "") }, false},
	} {
		if c.do(); still() != c.want {
			t.Errorf("%s: holds: %v", c.what, still())
		}
	}
}

// TestDeletingGrants allow nothing.
func TestDeletingGrants(t *testing.T) {
	w := newWorld(t)
	w.put(objectIn("a", key.Grants, "g"), []byte(`{"metadata":{"name":"g","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}}`))
	if code := w.code(named("jane"), "GET /spaces/a/api/v1/pods"); code != http.StatusForbidden {
		t.Errorf("got %d", code)
	}
}

// before records which Grants were compiled before the table was locked.
type before struct {
	*Grants
	compiled map[string]*grant
}

func (b *before) Prepare(state table.NextState, changes []table.Change) {
	b.Grants.Prepare(state, changes)
	for _, c := range changes {
		if c.Cur != nil {
			b.compiled[c.Cur.Key] = b.prepared[c.Cur.Entry]
		}
	}
}

// TestGrantsAreCompiledBefore: a Grant, which is as large as its user wrote it, is compiled before the table
// is locked, and the index has what was compiled then.
func TestGrantsAreCompiledBefore(t *testing.T) {
	b := &before{NewGrants(), map[string]*grant{}}
	w := table.New(table.Config{Observer: b, WindowSteps: 10, WindowBytes: 1 << 20})
	k := objectIn("s", key.Grants, "g").Key()
	for rev, value := range [][]byte{
		[]byte(`{"spec":{"subjects":[{"kind":"User","name":"anna"}],"roles":[{"name":"view"}]}}`),
		[]byte(`{"spec":{"subjects":[{"kind":"User","name":"bob"}],"roles":[{"name":"view"}]}}`),
	} {
		if err := w.Apply(int64(rev+1), []table.Update{{Key: k, Value: value, CreateRev: 1, ModRev: int64(rev + 1)}}); err != nil {
			t.Fatal(err)
		}
		if now := b.all[k]; now == nil || now != b.compiled[k] {
			t.Errorf("at revision %d the Grant %p is in force, %p was compiled", rev+1, now, b.compiled[k])
		}
	}
	if err := w.Apply(3, []table.Update{{Key: k, ModRev: 3}}); err != nil || len(b.all)+len(b.byHolder) > 0 {
		t.Errorf("after its deletion %d Grants are known: %v", len(b.all), err)
	}
}
