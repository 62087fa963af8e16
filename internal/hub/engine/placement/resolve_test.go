package placement

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// crowd returns locations with API discovery data in their rows, and a Placement that selects the
// first by its label.
func crowd(t testing.TB, n int) (*table.Writer, key.Placement) {
	t.Helper()
	w := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 20})
	name := key.Placement{Space: "s", Name: "p"}
	all := []table.Update{
		{Key: key.Space("s").Key(), Value: []byte(`{"metadata":{"name":"s","uid":"s"}}`), CreateRev: 1, ModRev: 1},
		{Key: name.Object().Key(), CreateRev: 1, ModRev: 1, Value: []byte(
			`{"metadata":{"name":"p","uid":"p"},"spec":{"locations":[{"selector":{"matchLabels":{"site":"0"}}}],"downsync":[{"names":["x"]}]}}`)},
	}
	serves := strings.Repeat(`{"groupVersion":"apps/v1","resources":["deployments"]},`, 200)
	for i := range n {
		all = append(all, table.Update{Key: key.Location(fmt.Sprintf("l-%d", i)).Key(), CreateRev: 1, ModRev: 1, Value: []byte(fmt.Sprintf(
			`{"metadata":{"name":"l-%d","uid":"u-%d","labels":{"site":"%d"}},"status":{"apis":[%s{}]},"spec":{"taints":[{"key":"k","effect":"NoPlace"}]}}`, i, i, i, serves))})
	}
	if err := w.Apply(1, all); err != nil {
		t.Fatal(err)
	}
	return w, name
}

// A Placement selects the same by a label and by names, of which some are of nothing.
func TestResolve(t *testing.T) {
	w, name := crowd(t, 3)
	for _, locations := range []string{`{"selector":{"matchLabels":{"site":"0"}}}`, `{"names":["l-0","none","l/0"]}`, `{"names":["l-0","l-1"],"selector":{"matchLabels":{"site":"0"}}}`} {
		row := w.Snapshot().Get(name.Object().Key())
		spec := fmt.Sprintf(`{"metadata":{"name":"p","uid":"p"},"spec":{"locations":[%s],"downsync":[{"names":["x"]}]}}`, locations)
		rev := w.Snapshot().Rev + 1
		if err := w.Apply(rev, []table.Update{{Key: row.Key, CreateRev: 1, ModRev: rev, Value: []byte(spec)}}); err != nil {
			t.Fatal(err)
		}
		state := w.Snapshot()
		p := compile(name, state.Get(row.Key))
		sites := p.resolve(state, tenantOf(state, name.Space))
		if len(sites) != 1 || len(p.set.names) != 1 || p.set.names[0] != "l-0" || len(sites["l-0"].taints) != 1 || !p.scheduling.barred.contains("l-0") {
			t.Errorf("%s: %d sites, selected %v, barred %v", locations, len(sites), p.set.names, p.scheduling.barred.names)
		}
	}
}

// BenchmarkStatusInACrowd is the status of a Placement that selects one of five thousand
// locations.
func BenchmarkStatusInACrowd(b *testing.B) {
	w, name := crowd(b, 5000)
	state := w.Snapshot()
	for b.Loop() {
		if s, ok := StatusOf(state, name); !ok || len(s.Locations) != 0 && len(s.Locations) != 1 {
			b.Fatal(s)
		}
	}
}
