package decide

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestRewritten shows that an object whose log position differs from the record is written again, though its
// fields belong to the same manager.
func TestRewritten(t *testing.T) {
	want := putWant("b")
	want.Leaf.Log = ownership.NewPair("m", 2)
	rec := recordOf("s", "b")
	rec.Source.Log, rec.UID, rec.Fields, rec.Source.UID = want.Leaf.Log, "t1", 1, want.Leaf.UID
	f := Facts{Space: "s", Want: want, Record: rec, DesiredComplete: true, Seen: Observed{Existence: Present, UID: "t1", Fields: 1, Log: ownership.NewPair("m", 1)}}
	if d := Decide(f); d.Do != DoApply || !d.Drift {
		t.Errorf("as it was not written: %+v", d)
	}
	f.Seen.Log = want.Leaf.Log
	if d := Decide(f); d.Do != DoNothing || d.State != wire.Applied {
		t.Errorf("as it was written: %+v", d)
	}
}
