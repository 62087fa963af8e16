package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestPoliciesAreCompiledBefore: policies and templates, which are as large as users write them, are
// compiled while others read the table, and once for each change that matters to them.
func TestPoliciesAreCompiledBefore(t *testing.T) {
	e := New()
	tbl := table.New(table.Config{Deriver: e, WindowSteps: 10, WindowBytes: 1 << 20})
	var compiled []string
	e.Rules = func(c Customized) Rules {
		what := "templates"
		if c.Spec != nil {
			what = fmt.Sprint(c.Name, c.Data, c.Labels)
		}
		compiled = append(compiled, what)
		limit.Returns(t, func() { tbl.Snapshot() }, "the table is read while "+what+" are compiled")
		return Rules{Text: what}
	}
	put := func(values map[string]string) {
		t.Helper()
		var all []table.Update
		rev := tbl.Rev() + 1
		for k, v := range values {
			all = append(all, table.Update{Key: k, Value: []byte(v), CreateRev: 1, ModRev: rev})
		}
		compiled = nil
		if err := tbl.Apply(rev, all); err != nil {
			t.Fatal(err)
		}
	}
	in := func(r key.Resource, namespace, name string) string {
		return key.Object{Space: "s", Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}}.Key()
	}
	const spec = `"spec":{"match":[{"resources":["configmaps"]}],"data":[{"name":"d","configMap":{"namespace":"n","name":"c"}}],"rules":[{"path":"$.data.x","value":1}]}`
	customizer, data := in(key.Customizers, "", "z"), in(key.ConfigMaps, "n", "c")
	placement := in(key.Placements, "", "p")
	large := strings.Repeat("x", 1200<<10)
	put(map[string]string{
		key.Space("s").Key():         `{"metadata":{"labels":{"a":"b"}}}`,
		key.Location("l").Key():      `{}`,
		customizer:                   `{` + spec + `}`,
		data:                         `{"data":{"k":"1"}}`,
		placement:                    `{"spec":{"locations":[{"names":["l","` + large + `"]}],"downsync":[{"resources":["configmaps"]}]}}`,
		in(key.ConfigMaps, "n", "t"): `{"metadata":{"annotations":{"orrery.dev/expand":"true"}},"data":{}}`,
	})
	check := func(when string, want ...string) {
		t.Helper()
		if fmt.Sprint(compiled) != fmt.Sprint(want) {
			t.Errorf("%s %q are compiled, want %q", when, compiled, want)
		}
		row, _ := tbl.Get(data)
		if m, ok := row.In.(*Membership); !ok || len(m.Members()) != 1 || len(m.Places()[0].Class.Inputs) != 1 || m.Places()[0].Class.Inputs[0].Rules != want[0] {
			t.Errorf("%s the object is placed as %s", when, describe(row.In))
		}
	}
	first := `z[{"k":"1"}] [{a b}]`
	if got := fmt.Sprint(compiled); !strings.Contains(got, first) || !strings.Contains(got, "templates") || len(compiled) != 2 {
		t.Errorf("at first %q are compiled", compiled)
	}
	compiled = []string{first}
	check("at first", first)
	if n := len(e.isSame) + len(e.preparedPlacements) + len(e.preparedCustomizers) + len(e.preparedData) + len(e.preparedTemplates) + len(e.preparedDefinitions) + len(e.references.prepared); n > 0 {
		t.Errorf("%d values are kept", n)
	}
	put(map[string]string{data: `{"data":{"k":"2"}}`})
	check("after a change of data", `z[{"k":"2"}] [{a b}]`)
	put(map[string]string{customizer: `{` + spec[:len(spec)-1] + `,"priority":7}}`, data: `{"data":{"k":"3"}}`})
	if want := `z[{"k":"3"}] [{a b}]`; compiled[0] != want {
		t.Errorf("after both have changed %q are compiled", compiled)
	}
	put(map[string]string{key.Space("s").Key(): `{"metadata":{"labels":{"a":"c"}}}`})
	slices.Sort(compiled)
	if want := []string{"templates", `z[{"k":"3"}] [{a c}]`}; !slices.Equal(compiled, want) {
		t.Errorf("after a change of the labels of the space %q are compiled, want %q", compiled, want)
	}
	before := e.placements["s"][0]
	put(map[string]string{customizer: `{"status":{"x":1},` + spec[:len(spec)-1] + `,"priority":7}}`, placement: `{"status":{"x":1},"spec":` + before.spec + `}`})
	if len(compiled) > 0 || e.placements["s"][0] != before {
		t.Errorf("after a change of statuses %q are compiled", compiled)
	}
}

// TestRootsAreCompiledBefore: a Placement of root is compiled once, whether it reaches other spaces or not, and not
// again for its status.
func TestRootsAreCompiledBefore(t *testing.T) {
	e := New()
	tbl := table.New(table.Config{Deriver: e, WindowSteps: 10, WindowBytes: 1 << 20})
	k := key.Placement{Space: key.Root, Name: "p"}.Object().Key()
	put := func(value string) {
		t.Helper()
		rev := tbl.Rev() + 1
		if err := tbl.Apply(rev, []table.Update{{Key: k, Value: []byte(value), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	reaching := `"spec":{"spaces":{"selector":{}},"downsync":[{"resources":["configmaps"]}]}`
	put(`{` + reaching + `}`)
	if len(e.roots.all) != 1 || len(e.placements[key.Root]) != 0 {
		t.Fatalf("%d reach spaces, %d do not", len(e.roots.all), len(e.placements[key.Root]))
	}
	before := e.roots.all[0].placement
	put(`{` + reaching + `,"status":{"observedGeneration":1}}`)
	if e.roots.all[0].placement != before || len(e.placements[key.Root]) != 0 {
		t.Error("it was compiled again for a status")
	}
	put(`{"spec":{"downsync":[{"resources":["configmaps"]}]}}`)
	if len(e.roots.all) != 0 || len(e.placements[key.Root]) != 1 {
		t.Errorf("%d reach spaces, %d do not", len(e.roots.all), len(e.placements[key.Root]))
	}
	put(`{` + reaching + `}`)
	if len(e.roots.all) != 1 || len(e.placements[key.Root]) != 0 {
		t.Errorf("in the end %d reach spaces, %d do not", len(e.roots.all), len(e.placements[key.Root]))
	}
}

// preparedDeriver calls check before each Derive.
type preparedDeriver struct {
	*Engine
	check func()
}

// Derive implements table.Deriver.
func (d preparedDeriver) Derive(state table.Reader, changes []table.Change) []table.Assignment {
	d.check()
	return d.Engine.Derive(state, changes)
}

// TestReferencesAreReadBefore: references of large objects, and of all objects where a Placement follows some, are
// read before the table is locked; so are the definitions of CRDs.
func TestReferencesAreReadBefore(t *testing.T) {
	e := New()
	references, definitions := 0, 0
	tbl := table.New(table.Config{Deriver: preparedDeriver{e, func() {
		references, definitions = len(e.references.prepared), len(e.preparedDefinitions)
	}}, WindowSteps: 10, WindowBytes: 1 << 20})
	in := func(r key.Resource, namespace, name string) string {
		return key.Object{Space: "s", Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}}.Key()
	}
	check := func(when string, values map[string]string, wantReferences, wantDefinitions int) {
		t.Helper()
		var all []table.Update
		rev := tbl.Rev() + 1
		for k, v := range values {
			all = append(all, table.Update{Key: k, Value: []byte(v), CreateRev: 1, ModRev: rev})
		}
		if err := tbl.Apply(rev, all); err != nil {
			t.Fatal(err)
		}
		if references != wantReferences || definitions != wantDefinitions {
			t.Errorf("%s the references of %d objects and %d definitions are read before, want %d and %d", when, references, definitions, wantReferences, wantDefinitions)
		}
	}
	deployments, config := key.NewResource("apps", "deployments"), in(key.ConfigMaps, "n", "c")
	deployment := func(size int) string {
		return `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", size) + `"}},"spec":{"template":{"spec":{"volumes":[{"configMap":{"name":"c"}}]}}}}`
	}
	check("at first", map[string]string{
		key.Space("s").Key(): `{}`, key.Location("l").Key(): `{}`, config: `{}`,
		in(deployments, "n", "small"): deployment(1), in(deployments, "n", "large"): deployment(minPreparedReferences),
		in(key.CRDs, "", "a.b"): `{"spec":{}}`,
	}, 1, 1)
	check("for a Placement", map[string]string{
		in(key.Placements, "", "p"): `{"spec":{"locations":[{"names":["l"]}],"downsync":[{"resources":["deployments"],"groups":["apps"],"followReferences":true}]},
			"status":{"follows":[{"entry":0,"resources":["configmaps"]}]}}`,
	}, 2, 0)
	if row, _ := tbl.Get(config); row.In == nil || len(e.references.from) != 2 {
		t.Errorf("%d objects are followed, and the ConfigMap is placed as %s", len(e.references.from), describe(row.In))
	}
	check("for a change", map[string]string{in(deployments, "n", "large"): deployment(minPreparedReferences + 1)}, 1, 0)
	check("for a change of a small object", map[string]string{in(deployments, "n", "small"): deployment(2)}, 1, 0)
	check("for an object that no Placement matches", map[string]string{in(key.NewResource("", "services"), "n", "s"): `{}`}, 0, 0)
}
