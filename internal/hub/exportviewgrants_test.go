package hub_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// contentOf returns a rule of a Grant: some verbs on the objects of an export view of space p.
func contentOf(f key.ExportView, verbs ...string) string {
	resource, name := "apiexports/content", f.Name
	if f.View {
		resource, name = "apiexportviews/content", f.Name+":"+f.Value
	}
	return fmt.Sprintf(`{"apiGroups":["orrery.dev"],"resources":[%q],"resourceNames":[%q],"verbs":["%s"]}`, resource, name, strings.Join(verbs, `","`))
}

// only has a user have these rules in a space, and no others there.
func (r *running) only(s key.Space, who string, rules ...string) {
	r.t.Helper()
	r.grant(s, who, `{"subjects":[{"kind":"User","name":"`+who+`"}],"rules":[`+strings.Join(rules, ",")+`]}`)
}

// matrix sends requests by all roots, as a user with a right to one export view.
type matrix struct {
	client
	t               *testing.T
	objects         []owned
	made            map[[2]string][]attempt
	allowed, denied int
}

// attempts are those at an object, which are always the same.
func (m *matrix) attempts(root reached, o owned) []attempt {
	id := [2]string{root.name, o.name}
	if m.made[id] == nil {
		m.made[id] = root.attempts(m.t, o)
	}
	return m.made[id]
}

// check tries the granted verb, and all others, on an object of an export view.
func (m *matrix) check(root reached, o owned, view key.ExportView, granted string) {
	done := map[string]bool{}
	for _, a := range m.attempts(root, o) {
		mine := root.view != nil && *root.view == view
		if !mine && done[a.right] || mine && a.right != granted && o.name != m.first(root).name {
			continue // what is denied by the right is so whatever it is for
		}
		done[a.right] = true
		code, body := m.try(a)
		if mine && a.right == granted {
			m.allowed++
			if wrong := a.wrong(root, o, code, body); wrong != "" {
				m.t.Errorf("%s: %s of %s, %s granted: %s: %d %s", root.name, a.verb, o.name, granted, wrong, code, body)
			}
			continue
		}
		m.denied++
		m.denies(root, o, a, granted, code, body)
	}
}

func (m *matrix) denies(root reached, o owned, a attempt, granted string, code int, body string) {
	if code != http.StatusForbidden || !strings.Contains(body, "cannot "+a.right+" ") {
		m.t.Errorf("%s: %s of %s, %q granted: %d %s", root.name, a.verb, o.name, granted, code, body)
	}
}

// first is an object that a root reaches, or any.
func (m *matrix) first(root reached) owned {
	return m.objects[max(0, slices.IndexFunc(m.objects, root.may))]
}

// some are an object of each kind that a root reaches, and one that it does not.
func (m *matrix) some(root reached) (all []owned) {
	done := map[string]bool{}
	for _, o := range m.objects {
		what := fmt.Sprint(root.may(o))
		if root.may(o) {
			what = o.resource
		}
		if !done[what] {
			done[what], all = true, append(all, o)
		}
	}
	return all
}

// TestGrantsOnExportViews: a Grant of one verb on one export view allows exactly that verb on its objects, by the
// path of one consumer and by that of all, and nothing elsewhere. A changed Grant takes effect at once.
func TestGrantsOnExportViews(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	m := &matrix{client: r.bearing(r.token(`{"user":"narrow"}`).Status.Token), t: t, objects: r.objectsOfAll(), made: map[[2]string][]attempt{}}
	before := r.objectsStored()
	for _, view := range []key.ExportView{exportViewOf("", ""), exportViewOf("classes", "gold"), exportViewOf("classes", "")} {
		for _, verb := range slices.Concat(readVerbs, writeVerbs) {
			r.only("p", "narrow", contentOf(view, verb))
			for _, root := range roots() {
				objects := []owned{m.first(root)}
				if root.view != nil && *root.view == view {
					objects = m.objects
				}
				for _, o := range objects {
					m.check(root, o, view, verb)
				}
			}
		}
		if after := r.objectsStored(); after != before {
			t.Fatalf("%s: the log has changed:\n%s\nwas\n%s", view, after, before)
		}
	}
	t.Logf("%d allowed, %d denied", m.allowed, m.denied)
}

// TestApplyingTakesCreate: a user that may only patch the objects of an export view can't create an object by
// apply.
func TestApplyingTakesCreate(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	gold := exportViewOf("classes", "gold")
	c := r.bearing(r.token(`{"user":"narrow"}`).Status.Token)
	for _, root := range []string{route.ExportViewRoot(gold, "c").Path("apis/fleet.example.org/v1/namespaces/default"), route.ExportViewRoot(gold, key.AllSpaces).Path("apis/fleet.example.org/v1/namespaces/c--default")} {
		for _, verbs := range [][]string{{"patch"}, {"patch", "update", "get"}, {"patch", "create"}} {
			r.only("p", "narrow", contentOf(gold, verbs...))
			want := http.StatusForbidden
			if slices.Contains(verbs, "create") {
				want = http.StatusCreated
			}
			const body = `{"apiVersion":"fleet.example.org/v1","kind":"Cluster","metadata":{"name":"new"},"spec":{"class":"gold"}}`
			if code, response := c.send("PATCH "+root+"/clusters/new?dryRun=All&fieldManager=t", body, contentType, applyYAML); code != want {
				t.Errorf("%s by %v: %d %s", root, verbs, code, response)
			}
		}
	}
}

// foreign are rights that are none to what p exports or slices as fleet and classes, by the
// space that gives them.
func foreign() map[key.Space][]string {
	rule := func(resource, names string) string {
		return `{"apiGroups":["orrery.dev"],"resources":["` + resource + `"],"resourceNames":["` + names + `"],"verbs":["*"]}`
	}
	return map[key.Space][]string{
		"p": {
			rule("apiexports", "fleet"), rule("apiexportviews", "classes"), rule("apiexportviews", "classes:gold"), rule("apiexports/status", "fleet"),
			rule("apiexports/content", "classes"), rule("apiexports/content", "classes:gold"), rule("apiexportviews/content", "fleet"),
			rule("apiexportviews/content", "classes"), rule("apiexportviews/content", "classes:gol"), rule("apiexportviews/content", "classes:gold:"),
			rule("apiexportviews/content", "gold"), contentOf(exportViewOf("tiers", "gold"), "*"), contentOf(exportViewOf("classes", "bronze"), "*"),
			`{"apiGroups":["fleet.example.org",""],"resources":["*"],"verbs":["*"]}`,
		},
		"u":      {contentOf(exportViewOf("", ""), "*"), contentOf(exportViewOf("classes", "gold"), "*"), contentOf(exportViewOf("classes", ""), "*")},
		"c":      {`{"apiGroups":["*"],"resources":["*","*/content","*/status","*/scale"],"verbs":["*"]}`},
		key.Root: {`{"apiGroups":["*"],"resources":["*/content"],"verbs":["*"]}`},
	}
}

// TestForeignGrants: a user without a right to an export view, or with a right to another one, is denied
// everything there, and can't find out which objects exist.
func TestForeignGrants(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	m := &matrix{client: r.bearing(r.token(`{"user":"narrow"}`).Status.Token), t: t, objects: r.objectsOfAll(), made: map[[2]string][]attempt{}}
	before := r.objectsStored()
	denied := func(what string) {
		for _, root := range roots()[1:] {
			for _, o := range m.some(root) {
				for _, a := range m.attempts(root, o) {
					code, body := m.try(a)
					m.denies(root, o, a, what, code, body)
					if root.may(o) {
						m.isIndistinguishable(root, o, a, code, body)
					}
				}
			}
			api := route.ExportViewRoot(*root.view, "c")
			for _, path := range []string{"api", "apis/fleet.example.org/v1", "openapi/v3", "version"} {
				if code, body := m.send("GET "+api.Path(path), ""); code != http.StatusForbidden {
					t.Errorf("%s: %s, %q granted: %d %s", root.name, path, what, code, body)
				}
			}
		}
	}
	denied("")
	for s, rules := range foreign() {
		r.only(s, "narrow", rules...)
	}
	denied("what is foreign")
	if after := r.objectsStored(); after != before {
		t.Fatalf("the log has changed:\n%s\nwas\n%s", after, before)
	}
}
