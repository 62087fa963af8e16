package placement

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// crowd has locations whose rows say what their clusters serve, and a Placement that selects the
// first by its label.
func crowd(t testing.TB, n int) (*table.Writer, key.Placement) {
	t.Helper()
	w := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 20})
	of := key.Placement{Space: "s", Name: "p"}
	all := []table.Update{
		{Key: key.Space("s").Key(), Value: []byte(`{"metadata":{"name":"s","uid":"s"}}`), CreateRev: 1, ModRev: 1},
		{Key: of.Object().Key(), CreateRev: 1, ModRev: 1, Value: []byte(
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
	return w, of
}

// A Placement reads no more than the outline of locations that it does not select, and all of
// those that it does.
func TestResolveReadsWhatIsSelected(t *testing.T) {
	w, of := crowd(t, 3)
	state := w.Snapshot()
	p := compile(of, state.Get(of.Object().Key()))
	sites := p.resolve(state, tenantOf(state, of.Space))
	if len(sites) != 3 || len(p.set.names) != 1 || p.set.names[0] != "l-0" {
		t.Fatalf("%d sites, selected %v", len(sites), p.set.names)
	}
	if got := sites["l-0"].taints; len(got) != 1 || !p.seating.barred.has("l-0") {
		t.Errorf("what is selected has the taints %v, barred %v", got, p.seating.barred.names)
	}
	if sites["l-1"].taints != nil || sites["l-1"].Labels.Get("site") != "1" {
		t.Errorf("what is not selected: %+v", sites["l-1"])
	}
}

// BenchmarkStatusInACrowd is the status of a Placement that selects one of five thousand
// locations.
func BenchmarkStatusInACrowd(b *testing.B) {
	w, of := crowd(b, 5000)
	state := w.Snapshot()
	for b.Loop() {
		if s, ok := StatusOf(state, of); !ok || len(s.Locations) != 0 && len(s.Locations) != 1 {
			b.Fatal(s)
		}
	}
}
