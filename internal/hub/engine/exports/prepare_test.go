package exports

import (
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// prepares calls check after each Prepare of an Engine, with the rows of the changes.
type prepares struct {
	*Engine
	check func(row *table.Row)
}

// Expose implements table.Exposer.
func (p prepares) Expose(state table.Reader, changes []table.Change) []table.Exposed {
	for _, c := range changes {
		p.check(c.Cur)
	}
	return p.Engine.Expose(state, changes)
}

// TestPoliciesAreDecodedBefore: exports, views and bindings, which are as large as users write them, are decoded
// before the table is locked, and the lock only takes the results.
func TestPoliciesAreDecodedBefore(t *testing.T) {
	e := New()
	checked := 0
	p := prepares{e, func(row *table.Row) {
		checked++
		if e.preparedExports[row.Entry] == nil && e.preparedViews[row.Entry] == nil && e.preparedBindings[row.Entry] == nil {
			t.Errorf("%s was not decoded before", row.Key)
		}
	}}
	w := table.New(table.Config{Exposer: p, WindowSteps: 10, WindowBytes: 1 << 20})
	in := func(s key.Space, r key.Resource, name string) string {
		return key.Object{Space: s, Identity: key.Identity{Resource: r, Name: name}}.Key()
	}
	export, view, binding := in("p", key.APIExports, "x"), in("p", key.APIExportViews, "v"), in("c", key.APIBindings, "b")
	for i, value := range []string{`{"spec":{"resources":[{"group":"g","resource":"r"}]}}`, `{"spec":{"resources":[{"group":"g","resource":"q"}]}}`} {
		rev := int64(i + 1)
		var all []table.Update
		for k, v := range map[string]string{
			export: value, view: `{"spec":{"export":"x","split":{"label":"l"}}}`, binding: `{"spec":{"export":{"space":"p","name":"x"}}}`,
		} {
			all = append(all, table.Update{Key: k, Value: []byte(v), CreateRev: 1, ModRev: rev})
		}
		if err := w.Apply(rev, all); err != nil {
			t.Fatal(err)
		}
		x := e.exports[exportID{"p", "x"}]
		if x == nil || x.Spec.Resources[0].Resource != []string{"r", "q"}[i] || len(e.views) != 1 || e.bindings["c"]["b"] == nil {
			t.Errorf("after revision %d the export is %+v, with %d views and the bindings %v", rev, x, len(e.views), e.bindings)
		}
	}
	if checked != 6 {
		t.Errorf("%d changes were checked", checked)
	}
}
