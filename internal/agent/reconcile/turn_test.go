package reconcile

import (
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// That a Job ended is believed only of the object and the content with which it was seen.
func TestEnded(t *testing.T) {
	seen := decide.Ending{UID: "target-uid", How: "Complete"}
	reported := func(content, how string) map[key.Space]*wire.Report {
		return map[key.Space]*wire.Report{"s": {UID: "u", Digest: digest(content), Completed: how}}
	}
	for _, c := range []struct {
		name     string
		turn     turn
		how      string
		reported bool
	}{
		{"seen", turn{record: recordOf("s", "u", "a"), view: worklist.View{Ending: seen}}, "Complete", false},
		{"seen of another object", turn{record: recordOf("s", "u", "a"), view: worklist.View{Ending: decide.Ending{UID: "other", How: "Failed"}}}, "", false},
		{"seen of other content", turn{record: recordOf("s", "u", "b"), view: worklist.View{Ending: seen}}, "", false},
		{"seen of another source", turn{record: recordOf("s", "u2", "a"), view: worklist.View{Ending: seen}}, "", false},
		{"seen of another space", turn{record: recordOf("o", "u", "a"), view: worklist.View{Ending: seen}}, "", false},
		{"reported", turn{before: reported("a", "Failed")}, "Failed", true},
		{"reported of other content", turn{before: reported("b", "Failed")}, "", false},
		{"reported and seen again", turn{before: reported("a", "Failed"), record: recordOf("s", "u", "a"), view: worklist.View{Ending: seen}}, "Complete", true},
		{"running", turn{before: reported("a", ""), record: recordOf("s", "u", "a")}, "", true},
	} {
		c.turn.wants = []decide.Entry{{Space: "s", Want: putWant("u", "a")}}
		if how, reported := c.turn.ended(); how != c.how || reported != c.reported {
			t.Errorf("%s: %q %v, want %q %v", c.name, how, reported, c.how, c.reported)
		}
	}
}

func TestTraced(t *testing.T) {
	for _, c := range []struct {
		name   string
		report wire.Report
		rec    *store.Record
		winner int
		want   bool
	}{
		{"applied", wire.Report{State: wire.Applied, Digest: digest("a")}, nil, -1, true},
		{"never applied", wire.Report{State: wire.Failed}, nil, -1, false},
		{"let go", wire.Report{State: wire.Orphaned, Reason: v1alpha1.ReasonReleased, Digest: digest("a")}, nil, -1, false},
		{"in use", wire.Report{State: wire.Orphaned, Reason: "InUse", Digest: digest("a")}, nil, -1, true},
		{"recorded", wire.Report{State: wire.Applied, Digest: digest("a")}, recordOf("s", "u", "a"), -1, false},
		{"desired", wire.Report{State: wire.Applied, Digest: digest("a")}, nil, 0, false},
	} {
		one := turn{
			winner: c.winner, wants: []decide.Entry{{Space: "s"}}, record: c.rec,
			view: worklist.View{Spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &c.report},
		}
		if got := one.traced(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestLingers(t *testing.T) {
	report := wire.Report{State: wire.Orphaned, Reason: v1alpha1.ReasonReleased, Since: now.Format(time.RFC3339)}
	one := turn{winner: -1, view: worklist.View{Spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &report}}
	for after, want := range map[time.Duration]time.Duration{-24 * time.Hour: 0, -time.Second: letGoFor, 0: letGoFor, letGoFor - 1: 1, time.Hour: letGoFor - time.Hour} {
		if got := one.lingers(now.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	report.Reason = "InUse"
	if got := one.lingers(now); got != 0 {
		t.Errorf("what is in use: %s", got)
	}
}
