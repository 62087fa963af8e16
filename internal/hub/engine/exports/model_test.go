package exports

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// splitPath splits a path.
func splitPath(path string, into ...*string) int {
	all := strings.Split(path, "/")
	for i := range into {
		*into[i] = all[i]
	}
	return len(all)
}

// machine drives a table and the naive state through the same random life.
type machine struct {
	engine *Engine
	table  *table.Writer
	naive  naive
	// made are the create revisions of existing objects.
	made map[string]int64
	rev  int64
}

func newMachine() *machine {
	m := &machine{engine: New(), naive: naive{}, made: map[string]int64{}}
	m.table = table.New(table.Config{Exposer: m.engine, WindowSteps: 1, WindowBytes: 1})
	return m
}

// set puts an object, or removes it.
func (m *machine) set(path string, object any) table.Update {
	u := table.Update{Key: key.OfPath(path), ModRev: m.rev}
	if object == nil {
		delete(m.naive, path)
		delete(m.made, path)
		return u
	}
	m.naive[path] = object
	if m.made[path] == 0 {
		m.made[path] = m.rev
	}
	u.CreateRev, u.Value = m.made[path], encode(object)
	return u
}

func encode(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // it is one of the tests' own
	}
	return text
}

// applying is a change of up to so many objects of some paths in one revision.
func (m *machine) applying(paths []string, n int) func(*rapid.T) {
	return func(t *rapid.T) {
		m.apply(t, rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 1, n, rapid.ID).Draw(t, "paths"))
	}
}

func (m *machine) apply(t *rapid.T, paths []string) {
	m.rev++
	var updates []table.Update
	for _, path := range paths {
		var object any
		if often(t, "is there") {
			object = draw(t, path)
		}
		updates = append(updates, m.set(path, object))
	}
	if err := m.table.Apply(m.rev, updates); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) reset(t *rapid.T) {
	m.table.Reset(m.rev, m.all())
	m.check(t)
}

// all are the updates that make the state of the naive one.
func (m *machine) all() (all []table.Update) {
	for _, path := range slices.Sorted(maps.Keys(m.naive)) {
		all = append(all, table.Update{Key: key.OfPath(path), CreateRev: m.made[path], ModRev: m.rev, Value: encode(m.naive[path])})
	}
	return all
}

// check compares with the naive state, and with an engine that is shown that state at once.
func (m *machine) check(t *rapid.T) {
	again := newMachine()
	again.table.Reset(m.rev, m.all())
	for _, path := range drawnPaths {
		row, _ := m.table.Get(key.OfPath(path))
		fresh, _ := again.table.Get(key.OfPath(path))
		got, whole, want := exportViewsText(row), exportViewsText(fresh), strings.Join(m.naive.exportViewsOf(path), " ")
		if got != want || whole != want {
			t.Fatalf("%s is on %q, at once on %q, want %q\n%s", path, got, whole, want, m.text())
		}
		if row == nil {
			continue
		}
		if shownIn := namesOf(m.engine.ExportViews(m.table.Snapshot(), row.Entry)); shownIn != want {
			t.Fatalf("%s would be in %q, want %q", path, shownIn, want)
		}
	}
	if a, b := m.engine.links.all.Items(), again.engine.links.all.Items(); !slices.Equal(a, b) {
		t.Fatalf("links %q, at once %q", a, b)
	}
	a, b := m.engine, again.engine
	for what, pair := range map[string][2]any{
		"views": {a.views, b.views}, "views of": {a.viewsOf, b.viewsOf}, "consumers": {a.consumers, b.consumers}, "bindings": {a.bindings, b.bindings},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Fatalf("%s: %v, at once %v", what, pair[0], pair[1])
		}
	}
	if len(a.exports) != len(b.exports) || len(a.rules) != len(b.rules) {
		t.Fatalf("%d exports and %d rules, at once %d and %d", len(a.exports), len(a.rules), len(b.exports), len(b.rules))
	}
}

func (m *machine) text() string {
	var all strings.Builder
	for _, u := range m.all() {
		all.WriteString(u.Key + " " + string(u.Value) + "\n")
	}
	return all.String()
}

func exportViewsText(row *table.Row) string {
	if row == nil || row.Exposure == nil {
		return ""
	}
	return namesOf(row.Exposure.ExportViews())
}

// namesOf returns the names of export views, sorted; "disorder" if they are not in order.
func namesOf(views []key.ExportView) string {
	if !slices.IsSortedFunc(views, key.ExportView.Compare) {
		return "disorder"
	}
	var all []string
	for _, f := range views {
		all = append(all, f.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestEngineEqualsRecomputation compares the engine, over random lives, with one that is shown
// each state at once, and with the naive rule.
func TestEngineEqualsRecomputation(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.rev++
		m.table.Reset(m.rev, m.furnish(t))
		m.check(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "reset": m.reset, "policy": m.applying(drawnPolicies, 1), "several": m.applying(drawnPaths, 4),
			"object": m.applying(drawnThings, 1), "another": m.applying(drawnThings, 1), "objects": m.applying(drawnThings, 3),
		})
	})
}

// furnish draws a whole state, of which most is there.
func (m *machine) furnish(t *rapid.T) (all []table.Update) {
	for _, path := range drawnPaths {
		if often(t, "is there") {
			all = append(all, m.set(path, draw(t, path)))
		}
	}
	return all
}

// TestNothingIsKept checks that deleted objects leave no state.
func TestNothingIsKept(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.rev++
		m.table.Reset(m.rev, m.furnish(t))
		for _, path := range rapid.Permutation(drawnPaths).Draw(t, "order") {
			m.rev++
			if err := m.table.Apply(m.rev, []table.Update{m.set(path, nil)}); err != nil {
				t.Fatal(err)
			}
		}
		e := m.engine
		if n := len(e.exports) + len(e.views) + len(e.viewsOf) + len(e.bindings) + len(e.consumers) + len(e.rules) + e.links.all.Len(); n > 0 {
			t.Fatalf("%d things are kept", n)
		}
	})
}

// TestTextsAreNotNames checks that texts which cannot be names of objects are not stored in the
// index.
func TestTextsAreNotNames(t *testing.T) {
	r := &rule{use: &use{
		kinds:      map[groupKind]boundKind{{"example.com", "Widget"}: {key.NewResource("example.com", "widgets"), true}},
		references: map[key.Resource][]reference{key.NewResource("example.com", "widgets"): {{".spec.secret", key.Secrets}}},
	}}
	for text, want := range map[string]bool{"s": true, "a/b": false, "": false, strings.Repeat("s", maxName): true, strings.Repeat("s", maxName+1): false} {
		widget := table.NewEntry(key.OfPath("c/example.com/widgets/n/w"), fmt.Appendf(nil, `{"spec":{"secret":%q}}`, text), 1, 1)
		secret := table.NewEntry(key.OfPath("c/core/secrets/n/s"),
			fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":%q}]}}`, text), 1, 1)
		named, owned := 0, 0
		for range r.named(widget) {
			named++
		}
		for range r.owners(secret) {
			owned++
		}
		if (named == 2) != want || (owned == 1) != want {
			t.Errorf("a text of %d bytes names %d objects and %d owners", len(text), named, owned)
		}
	}
}

// TestShowingsAreShared checks that objects with the same export views share an exposure, and that
// unused ones are dropped.
func TestShowingsAreShared(t *testing.T) {
	var s exposures
	viewsFor := func(value string) []key.ExportView {
		return []key.ExportView{{Space: "p", Name: "v", View: true, Value: value}}
	}
	kept := s.intern(viewsFor("kept"))
	for i := range 10 * minSweep {
		s.intern(viewsFor(string(rune('a' + i))))
	}
	runtime.GC()
	if s.sweep(); len(s.made) != 1 || s.intern(viewsFor("kept")) != kept {
		t.Errorf("%d are kept of one that is used", len(s.made))
	}
}
