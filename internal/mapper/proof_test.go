package mapper

import (
	"testing"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
)

// TestProofsAreCounted shows that an item counts as long as it waits.
func TestProofsAreCounted(t *testing.T) {
	e := newEngine()
	it := e.loadItem(key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")})
	e.queue.push(it)
	e.queue.pop((*kind).mayRun)
	for _, c := range []struct {
		result result
		want   int
	}{
		{result{wanted: true, proof: marks.Missing}, 1},
		{result{wanted: true, failed: true}, 1},
		{result{wanted: true, proof: marks.Missing}, 1},
		{result{wanted: true, proof: marks.Given}, 0},
		{result{wanted: true, proof: marks.Missing}, 1},
		{result{forget: true, gone: []key.Space{"s"}, proof: marks.Missing}, 0},
	} {
		it.queue = running
		it.kind.running++
		if e.finish(it, c.result); e.proofs[marks.Missing] != c.want {
			t.Errorf("after %+v %d wait, want %d", c.result, e.proofs[marks.Missing], c.want)
		}
	}
}
