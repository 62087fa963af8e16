package mapper

import (
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/wire"
)

func TestHowEnded(t *testing.T) {
	jobs, pods := key.NewResource("batch", "jobs"), key.NewResource("", "pods")
	for _, c := range []struct {
		resource     key.Resource
		status, want string
	}{
		{jobs, `{"conditions":[{"type":"Complete","status":"True"}]}`, "Complete"},
		{jobs, `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, ""},
		{jobs, `{"conditions":[{"type":"Complete","status":"False"},{"type":"Failed","status":"True"}]}`, "Failed"},
		{jobs, `{"active":1}`, ""},
		{jobs, `"?"`, ""},
		{pods, `{"phase":"Running"}`, ""},
		{pods, `{"phase":"Succeeded"}`, "Succeeded"},
		{pods, `{"phase":"Failed"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"DeadlineExceeded"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"Evicted"}`, ""},
		{pods, `{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}`, ""},
		{key.NewResource("apps", "deployments"), `{"conditions":[{"type":"Complete","status":"True"}]}`, ""},
	} {
		if got := howEnded(c.resource, []byte(c.status)); got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.resource, c.status, got, c.want)
		}
	}
}

// What ended is believed of the object and the content that it was seen of only.
func TestEnded(t *testing.T) {
	seen := ending{uid: "target-uid", how: "Complete"}
	reported := func(content, how string) map[key.Space]*wire.Report {
		return map[key.Space]*wire.Report{"s": {UID: "u", Digest: digest(content), Completed: how}}
	}
	for _, c := range []struct {
		name     string
		turn     turn
		how      string
		reported bool
	}{
		{"seen", turn{record: recordOf("s", "u", "a"), view: view{ending: seen}}, "Complete", false},
		{"seen of another object", turn{record: recordOf("s", "u", "a"), view: view{ending: ending{"other", "Failed"}}}, "", false},
		{"seen of other content", turn{record: recordOf("s", "u", "b"), view: view{ending: seen}}, "", false},
		{"seen of another source", turn{record: recordOf("s", "u2", "a"), view: view{ending: seen}}, "", false},
		{"seen of another space", turn{record: recordOf("o", "u", "a"), view: view{ending: seen}}, "", false},
		{"reported", turn{before: reported("a", "Failed")}, "Failed", true},
		{"reported of other content", turn{before: reported("b", "Failed")}, "", false},
		{"reported and seen again", turn{before: reported("a", "Failed"), record: recordOf("s", "u", "a"), view: view{ending: seen}}, "Complete", true},
		{"running", turn{before: reported("a", ""), record: recordOf("s", "u", "a")}, "", true},
	} {
		c.turn.wants = []spaceWant{{"s", putWant("u", "a")}}
		if how, reported := c.turn.ended(); how != c.how || reported != c.reported {
			t.Errorf("%s: %q %v, want %q %v", c.name, how, reported, c.how, c.reported)
		}
	}
}

// A report keeps how its content ended for as long as it is about that content.
func TestComposeCompleted(t *testing.T) {
	ran := compose(putWant("u", "a"), nil, decision{state: wire.Applied, completed: "Complete"}, nil, nil, now)
	if ran.Completed != "Complete" || ran.Digest != digest("a") || ran.UID != "u" {
		t.Errorf("without a record: %+v", ran)
	}
	w := treated("a", wire.Policy{Orphan: true})
	if r := compose(w, recordOf("s", "u", "a"), decision{state: wire.Applied}, nil, nil, now); !r.Orphan || r.Completed != "" {
		t.Errorf("orphaned when removed: %+v", r)
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
		{"let go", wire.Report{State: wire.Orphaned, Reason: reasonLetGo, Digest: digest("a")}, nil, -1, false},
		{"in use", wire.Report{State: wire.Orphaned, Reason: "InUse", Digest: digest("a")}, nil, -1, true},
		{"recorded", wire.Report{State: wire.Applied, Digest: digest("a")}, recordOf("s", "u", "a"), -1, false},
		{"desired", wire.Report{State: wire.Applied, Digest: digest("a")}, nil, 0, false},
	} {
		of := turn{
			winner: c.winner, wants: []spaceWant{{space: "s"}}, record: c.rec,
			view: view{spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &c.report},
		}
		if got := of.traced(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestLingers(t *testing.T) {
	report := wire.Report{State: wire.Orphaned, Reason: reasonLetGo, Since: now.Format(time.RFC3339)}
	of := turn{winner: -1, view: view{spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &report}}
	for after, want := range map[time.Duration]time.Duration{-time.Hour: letGoFor, 0: letGoFor, letGoFor - 1: 1, time.Hour: letGoFor - time.Hour} {
		if got := of.lingers(now.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	report.Reason = "InUse"
	if got := of.lingers(now); got != 0 {
		t.Errorf("what is in use: %s", got)
	}
}

func TestInsistence(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	i := insistence{first: 10 * time.Second, started: at}
	var m *store.Mutation
	for n, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600, 600} {
		most := time.Duration(seconds) * time.Second
		m = i.after(m, ".spec.replicas", at)
		if wait := i.wait(m, "x", at); int(m.Tries) != n || wait > most || wait < most*3/4-time.Millisecond {
			t.Errorf("after %d tries it waits for %s, want %s", m.Tries, wait, most)
		}
	}
	if wait := i.wait(m, "x", m.Due); wait != 0 {
		t.Errorf("when it is due it waits for %s", wait)
	}
	if wait := i.wait(m, "x", at.Add(-24*time.Hour)); wait != 0 {
		t.Errorf("with a clock set back it waits for %s", wait)
	}
	// What came due while no agent ran does not come all at once.
	later := insistence{first: i.first, started: at.Add(time.Hour)}
	soon := 0
	for n := range 1000 {
		if later.wait(m, fmt.Sprint(n), later.started) < time.Minute {
			soon++
		}
	}
	if soon < 50 || soon > 200 {
		t.Errorf("%d of 1000 come in the first of ten minutes", soon)
	}
}
