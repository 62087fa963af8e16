package worklist

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// TestProofsAreCounted shows that an item counts as long as it waits.
func TestProofsAreCounted(t *testing.T) {
	e := New()
	it, _ := e.item(key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}, "")
	e.queue.push(it)
	e.queue.pop(now, (*kind).mayRun)
	for _, c := range []struct {
		result Result
		want   int
	}{
		{Result{Wanted: true, Proof: ownership.Missing}, 1},
		{Result{Wanted: true, Failed: true}, 1},
		{Result{Wanted: true, Proof: ownership.Missing}, 1},
		{Result{Wanted: true, Proof: ownership.Given}, 0},
		{Result{Wanted: true, Proof: ownership.Missing}, 1},
		{Result{Forget: true, Gone: []key.Space{"s"}, Proof: ownership.Missing}, 0},
	} {
		it.queue = running
		it.kind.running++
		if e.Finish(it, c.result); e.counters.proofs[ownership.Missing] != c.want {
			t.Errorf("after %+v %d wait, want %d", c.result, e.counters.proofs[ownership.Missing], c.want)
		}
	}
}
