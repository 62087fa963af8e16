package decide

import (
	"testing"

	"orrery.dev/orrery/internal/agent/store"
)

func TestSourceStatus(t *testing.T) {
	for _, c := range []struct {
		name, status, want string
		applied, source    int64
	}{
		{"made again", `{"observedGeneration":1,"replicas":2}`, `{"observedGeneration":7,"replicas":2}`, 1, 7},
		{"not seen yet by its controller", `{"replicas":2,"observedGeneration":3}`, `{"observedGeneration":6,"replicas":2}`, 4, 7},
		{"changed at the location since", `{"observedGeneration":9}`, `{"observedGeneration":7}`, 4, 7},
		{"none", `{"phase":"Active"}`, `{"phase":"Active"}`, 4, 7},
		{
			"of conditions", `{"conditions":[{"observedGeneration":2,"type":"A"},{"type":"B"},{"observedGeneration":4}],"observedGeneration":4}`,
			`{"conditions":[{"observedGeneration":6,"type":"A"},{"type":"B"},{"observedGeneration":7}],"observedGeneration":7}`, 4, 7,
		},
		{"of conditions only", `{"conditions":[{"observedGeneration":4}]}`, `{"conditions":[{"observedGeneration":7}]}`, 4, 7},
		{"conditions that are none", `{"conditions":[null,"x"],"x":{"observedGeneration":4}}`, `{"conditions":[null,"x"],"x":{"observedGeneration":4}}`, 4, 7},
		{"deeper only", `{"x":{"observedGeneration":2}}`, `{"x":{"observedGeneration":2}}`, 4, 7},
		{"not a number", `{"observedGeneration":"x"}`, `{"observedGeneration":"x"}`, 4, 7},
		{"a source without generations", `{"observedGeneration":2}`, `{"observedGeneration":2}`, 4, 0},
		{"empty", ``, ``, 4, 7},
	} {
		rec := &store.Record{Source: store.Source{Generation: c.source}, Generation: c.applied}
		if got := string(sourceStatus([]byte(c.status), rec)); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.status, got, c.want)
		}
	}
}
