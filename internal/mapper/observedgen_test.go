package mapper

import "testing"

func TestSourceStatus(t *testing.T) {
	for _, c := range []struct {
		name, status, want string
		applied, source    int64
	}{
		{"made again", `{"observedGeneration":1,"replicas":2}`, `{"observedGeneration":7,"replicas":2}`, 1, 7},
		{"not seen yet by its controller", `{"replicas":2,"observedGeneration":3}`, `{"observedGeneration":6,"replicas":2}`, 4, 7},
		{"changed at the location since", `{"observedGeneration":9}`, `{"observedGeneration":7}`, 4, 7},
		{"none", `{"phase":"Active"}`, `{"phase":"Active"}`, 4, 7},
		{"deeper only", `{"conditions":[{"observedGeneration":2}]}`, `{"conditions":[{"observedGeneration":2}]}`, 4, 7},
		{"not a number", `{"observedGeneration":"x"}`, `{"observedGeneration":"x"}`, 4, 7},
		{"a source without generations", `{"observedGeneration":2}`, `{"observedGeneration":2}`, 4, 0},
		{"empty", ``, ``, 4, 7},
	} {
		rec := &record{Source: source{Generation: c.source}, Generation: c.applied}
		if got := string(sourceStatus([]byte(c.status), rec)); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.status, got, c.want)
		}
	}
}
