package reconcile

import (
	"fmt"
	"testing"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
)

// TestHaltDuringTurn shows that a change that was not sent, since the agent was halted during the turn, is
// no failure of the object or of the cluster: the last report stays, and the object has another turn.
func TestHaltDuringTurn(t *testing.T) {
	record := &store.Record{UID: "u"}
	o := refusals{}.outcome(&turn{record: record}, fmt.Errorf("delete: %w", kubeclient.ErrReadOnly)) // without a gate to ask for a probe
	if !o.keep || o.failed || !o.Withheld || o.Retry == 0 || o.record != record {
		t.Errorf("%+v", o)
	}
}
