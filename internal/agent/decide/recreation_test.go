package decide

import (
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestGuardedRecreationWaits shows that an object which is to be made anew waits for the confirmation of
// its removal, whether or not its kind can be observed.
func TestGuardedRecreationWaits(t *testing.T) {
	source := store.Source{UID: "s", Digest: wire.Sum{1}, Policy: wire.Policy{Recreate: true}}
	want := &store.Want{Kind: store.WantPut, Leaf: source}
	record := &store.Record{UID: "u", Source: store.Source{UID: "s"}, Recreation: store.RecreationFor(source)}
	for _, seen := range []Existence{Present, Blind} {
		f := Facts{Want: want, Record: record, Guarded: true, Seen: Observed{Existence: seen, UID: "u"}}
		if d := Decide(f); d.Do != DoNothing || d.State != wire.Waiting || d.Reason != v1alpha1.ReasonPruneGuard {
			t.Errorf("presence %d: %+v", seen, d)
		}
		f.Guarded = false
		if d := Decide(f); d.Do != DoApply {
			t.Errorf("presence %d, confirmed: %+v", seen, d)
		}
	}
}
