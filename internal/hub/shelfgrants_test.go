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

// contentOf is a rule of a Grant: some verbs on what is on a shelf of space p.
func contentOf(f key.Shelf, verbs ...string) string {
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

// matrix asks, as somebody with a right to one shelf, by way of all roots.
type matrix struct {
	client
	t               *testing.T
	objects         []owned
	made            map[[2]string][]attempt
	allowed, denied int
}

// attempts are those at an object, which are always the same.
func (m *matrix) attempts(at reached, o owned) []attempt {
	of := [2]string{at.name, o.name}
	if m.made[of] == nil {
		m.made[of] = at.attempts(m.t, o)
	}
	return m.made[of]
}

// asks tries what is granted at a shelf, and everything else, of an object.
func (m *matrix) asks(at reached, o owned, on key.Shelf, granted string) {
	done := map[string]bool{}
	for _, a := range m.attempts(at, o) {
		mine := at.shelf != nil && *at.shelf == on
		if !mine && done[a.right] || mine && a.right != granted && o.name != m.first(at).name {
			continue // what is denied by the right is so whatever it is for
		}
		done[a.right] = true
		code, body := m.try(a)
		if mine && a.right == granted {
			m.allowed++
			if wrong := a.wrong(at, o, code, body); wrong != "" {
				m.t.Errorf("%s: %s of %s, %s granted: %s: %d %s", at.name, a.verb, o.name, granted, wrong, code, body)
			}
			continue
		}
		m.denied++
		m.denies(at, o, a, granted, code, body)
	}
}

func (m *matrix) denies(at reached, o owned, a attempt, granted string, code int, body string) {
	if code != http.StatusForbidden || !strings.Contains(body, "cannot "+a.right+" ") {
		m.t.Errorf("%s: %s of %s, %q granted: %d %s", at.name, a.verb, o.name, granted, code, body)
	}
}

// first is an object that a root reaches, or any.
func (m *matrix) first(at reached) owned {
	return m.objects[max(0, slices.IndexFunc(m.objects, at.may))]
}

// some are an object of each kind that a root reaches, and one that it does not.
func (m *matrix) some(at reached) (all []owned) {
	done := map[string]bool{}
	for _, o := range m.objects {
		what := fmt.Sprint(at.may(o))
		if at.may(o) {
			what = o.resource
		}
		if !done[what] {
			done[what], all = true, append(all, o)
		}
	}
	return all
}

// TestGrantsOnShelves: with a Grant of one verb on one shelf, exactly that verb works there,
// by the path of one consumer as by that of all, on what is on the shelf; and nothing anywhere
// else. A Grant that is replaced counts at once.
func TestGrantsOnShelves(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	m := &matrix{client: r.bearing(r.token(`{"user":"narrow"}`).Status.Token), t: t, objects: r.objectsOfAll(), made: map[[2]string][]attempt{}}
	before := r.objectsStored()
	for _, on := range []key.Shelf{shelfOf("", ""), shelfOf("classes", "gold"), shelfOf("classes", "")} {
		for _, verb := range slices.Concat(readVerbs, writeVerbs) {
			r.only("p", "narrow", contentOf(on, verb))
			for _, at := range roots() {
				objects := []owned{m.first(at)}
				if at.shelf != nil && *at.shelf == on {
					objects = m.objects
				}
				for _, o := range objects {
					m.asks(at, o, on, verb)
				}
			}
		}
		if after := r.objectsStored(); after != before {
			t.Fatalf("%s: the log has changed:\n%s\nwas\n%s", on, after, before)
		}
	}
	t.Logf("%d allowed, %d denied", m.allowed, m.denied)
}

// TestApplyingTakesCreate: who may patch what is on a shelf makes nothing there by applying it.
func TestApplyingTakesCreate(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	gold := shelfOf("classes", "gold")
	c := r.bearing(r.token(`{"user":"narrow"}`).Status.Token)
	for _, root := range []string{route.ShelfRoot(gold, "c").Path("apis/fleet.example.org/v1/namespaces/default"), route.ShelfRoot(gold, key.AllSpaces).Path("apis/fleet.example.org/v1/namespaces/c--default")} {
		for _, verbs := range [][]string{{"patch"}, {"patch", "update", "get"}, {"patch", "create"}} {
			r.only("p", "narrow", contentOf(gold, verbs...))
			want := http.StatusForbidden
			if slices.Contains(verbs, "create") {
				want = http.StatusCreated
			}
			const body = `{"apiVersion":"fleet.example.org/v1","kind":"Cluster","metadata":{"name":"new"},"spec":{"class":"gold"}}`
			if code, said := c.send("PATCH "+root+"/clusters/new?dryRun=All&fieldManager=t", body, contentType, applyYAML); code != want {
				t.Errorf("%s by %v: %d %s", root, verbs, code, said)
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
			rule("apiexportviews/content", "gold"), contentOf(shelfOf("tiers", "gold"), "*"), contentOf(shelfOf("classes", "bronze"), "*"),
			`{"apiGroups":["fleet.example.org",""],"resources":["*"],"verbs":["*"]}`,
		},
		"u":      {contentOf(shelfOf("", ""), "*"), contentOf(shelfOf("classes", "gold"), "*"), contentOf(shelfOf("classes", ""), "*")},
		"c":      {`{"apiGroups":["*"],"resources":["*","*/content","*/status","*/scale"],"verbs":["*"]}`},
		key.Root: {`{"apiGroups":["*"],"resources":["*/content"],"verbs":["*"]}`},
	}
}

// TestForeignGrants: who has no right to a shelf, or only to others, is denied everything on
// it, and not told what is there.
func TestForeignGrants(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	m := &matrix{client: r.bearing(r.token(`{"user":"narrow"}`).Status.Token), t: t, objects: r.objectsOfAll(), made: map[[2]string][]attempt{}}
	before := r.objectsStored()
	denied := func(what string) {
		for _, at := range roots()[1:] {
			for _, o := range m.some(at) {
				for _, a := range m.attempts(at, o) {
					code, body := m.try(a)
					m.denies(at, o, a, what, code, body)
					if at.may(o) {
						m.tells(at, o, a, code, body)
					}
				}
			}
			root := route.ShelfRoot(*at.shelf, "c")
			for _, path := range []string{"api", "apis/fleet.example.org/v1", "openapi/v3", "version"} {
				if code, body := m.send("GET "+root.Path(path), ""); code != http.StatusForbidden {
					t.Errorf("%s: %s, %q granted: %d %s", at.name, path, what, code, body)
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
