package rollup_test

import (
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestHugeQuantities: a location that reports a quantity of a billion digits takes neither the
// hub's time nor its memory, and is not taken for one that is as it should be.
func TestHugeQuantities(t *testing.T) {
	for name, c := range map[string]struct {
		resource key.Resource
		status   func(quantity string) string
	}{
		"capacity": {
			key.Resource{Group: key.CoreGroup, Resource: "persistentvolumeclaims"},
			func(q string) string { return `{"phase":"Bound","capacity":{"storage":"` + q + `"}}` },
		},
		"metric": {
			key.Resource{Group: "autoscaling", Resource: "horizontalpodautoscalers"},
			func(q string) string {
				return `{"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"` + q + `"}}}]}`
			},
		},
	} {
		for _, q := range []string{"1e2000000000", "1e-2000000000"} {
			t.Run(name+" "+q, func(t *testing.T) {
				status, _ := rollup.Merge(c.resource, []byte(`{"metadata":{"generation":1}}`), []rollup.Report{
					{Location: "a", Sound: true, Generation: 1, Status: []byte(c.status(q))},
					{Location: "b", Sound: true, Generation: 1, Status: []byte(c.status("1Gi"))},
				})
				if strings.Contains(string(status), q) || !strings.Contains(string(status), "too large") {
					t.Errorf("status %s", status)
				}
			})
		}
	}
}
