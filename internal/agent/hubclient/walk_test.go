package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/seeds"
)

// TestWalkCut interrupts a comparison at each step. Nothing is removed before the whole
// comparison has ended, and at the end both sides are equal.
func TestWalkCut(t *testing.T) {
	const n = 800
	m := newMemory(t)
	for i := range n {
		m.put(put(name(i), "1", "x"))
	}
	s, _ := m.follow()
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	m.same(t, s.Store)
	rng := seeds.Rand(t, 1)
	for round := range 5 {
		gone := map[string]bool{}
		for range 400 {
			k := name(rng.IntN(2 * n))
			if f, ok := m.content[k]; ok && rng.IntN(2) == 0 {
				gone[k] = true
				delete(m.content, f.Put.Key)
			} else {
				m.put(put(k, "1", fmt.Sprint(round)))
				delete(gone, k)
			}
		}
		m.revision++
		before := keysOf(t, s.Store)
		m.left = rng.IntN(400)
		for cut := 0; ; cut++ {
			budget := m.left
			_, err := s.once(t.Context())
			if errors.Is(err, errWalked) {
				break
			}
			for k := range gone {
				if _, ok := before[k]; ok && !s.isDesired(t, k) {
					t.Fatalf("%q was removed by a walk that ended with %v", k, err)
				}
			}
			if s.Store.Meta().Revision == m.revision {
				t.Fatalf("an incomplete comparison set revision %d", m.revision)
			}
			m.left = max(400, budget+budget/3+rng.IntN(200)) // a little further each time
			if cut > 100 {
				t.Fatalf("the comparison does not end: %v", err)
			}
		}
		m.left = -1
		m.same(t, s.Store)
	}
}

func (s *Session) isDesired(t *testing.T, k string) (desired bool) {
	t.Helper()
	if err := s.Store.View(func(x *store.Tx) error { desired = x.Desired.Contains(k); return nil }); err != nil {
		t.Fatal(err)
	}
	return desired
}

// TestWalkOfWhatChanges changes the hub between any two responses. The stream resumes at
// the revision of the first response, so that no change is missed.
func TestWalkOfWhatChanges(t *testing.T) {
	m := newMemory(t)
	for i := range 3000 {
		m.put(put(name(i), "1", "x"))
	}
	s, _ := m.follow()
	rng := seeds.Rand(t, 1)
	var first int64
	changed := map[string]bool{}
	m.before = func(call string) {
		switch call {
		case "walk", "fetch":
			if first == 0 {
				first = m.revision
				return
			}
			k := name(rng.IntN(3000))
			changed[k] = true
			if delete(m.content, k); rng.IntN(2) == 0 {
				m.put(put(k, "2", "y"))
			}
			m.revision++
		}
	}
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if got := s.Store.Meta().Revision; got != first {
		t.Errorf("the stream is to go on from %d, not from %d", first, got)
	}
	got := keysOf(t, s.Store)
	for k, f := range m.content {
		if !changed[k] && got[k] != rootOf(f) {
			t.Errorf("%q differs", k)
		}
	}
	for k := range got {
		if _, ok := m.content[k]; !ok && !changed[k] {
			t.Errorf("%q is still there", k)
		}
	}
	m.before = func(string) {}
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) && !errors.Is(err, errBye) {
		t.Fatal(err)
	}
	m.same(t, s.Store)
}

// TestWalkAcrossARestart checks that responses of a restarted hub are not mixed with earlier ones:
// the restarted hub may have another log.
func TestWalkAcrossARestart(t *testing.T) {
	m := newMemory(t)
	for i := range 300 {
		m.put(put(name(i), "1", "x"))
	}
	s, _ := m.follow()
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	m.content = map[string]wire.Frame{}
	m.put(put(name(500), "1", "x"))
	m.before = func(call string) {
		if call == "fetch" {
			m.marker, m.content = "n", map[string]wire.Frame{}
		}
	}
	if _, err := s.once(t.Context()); err == nil || errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if got := keysOf(t, s.Store); len(got) != 300 {
		t.Errorf("%d entries are left", len(got))
	}
}

// TestWalkThatFailsIsTold ends a comparison with an error after a removal was stored. The follower
// must be notified of the removal then: the next comparison finds no difference there.
func TestWalkThatFailsIsTold(t *testing.T) {
	s, a, b := filled(t)
	s.touched = nil
	leaving := wire.Frame{Gone: &wire.Gone{Key: keyB, UID: b.Put.UID, Digest: b.Put.Digest, APIVersion: "v1", Kind: "ConfigMap"}}
	s.script("desired", answer{body: lines(hello(11, rootOf(a), nil))})
	s.script("walk", paged(11, nil, a, put(keyB, "1", "leaving")))
	s.script("fetch", fetched(11, "another", leaving))
	if err := s.once(); err == nil || errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if w, ok := s.content()[keyB]; !ok || w.Desired() {
		t.Fatalf("the removal is not stored: %+v", w)
	}
	if len(s.touched) != 1 || s.touched[0].Object.Path() != keyB {
		t.Errorf("told of %+v", s.touched)
	}
}

// TestBytesInSync bounds the bytes of a comparison without differences, and the size of each
// response if there are many.
func TestBytesInSync(t *testing.T) {
	const n = 20000
	m := newMemory(t)
	for i := range n {
		m.put(put(name(i), "1", "x"))
		m.reports[name(i)] = wire.Report{UID: "1", State: wire.Applied, Since: "2030-01-01T00:00:00Z"}
	}
	s, r := m.follow()
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	m.same(t, s.Store)
	t.Logf("a new store: %d bytes up, %d down, largest answer %d, calls %v", m.up, m.down, m.largest, m.calls)
	if bound := wire.MaxSpans * 128 * 150; m.largest > bound {
		t.Errorf("an answer had %d bytes", m.largest)
	}
	exchange := func(what string, do func(context.Context) error, bound int) {
		t.Helper()
		m.up, m.down, m.calls = 0, 0, map[string]int{}
		if err := do(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %d bytes up, %d down, calls %v", what, m.up, m.down, m.calls)
		if m.up >= bound || m.down >= bound {
			t.Errorf("%s took %d bytes up and %d down", what, m.up, m.down)
		}
	}
	session := func(end error) func(context.Context) error {
		return func(ctx context.Context) error {
			if _, err := s.once(ctx); !errors.Is(err, end) {
				return fmt.Errorf("ended with %w", err)
			}
			return nil
		}
	}
	exchange("a session in sync", session(errBye), 1024)
	exchange("reports in sync", r.agree, 1024)
	m.put(put(name(777), "1", "y"))
	exchange("one object differs", session(errWalked), 64<<10)
	m.same(t, s.Store)
}

// TestReportsAgree checks that the reports of both sides become equal from any state.
func TestReportsAgree(t *testing.T) {
	m := newMemory(t)
	s, r := m.follow()
	mine, other := wire.Report{UID: "1", State: wire.Applied}, wire.Report{UID: "1", State: wire.Applied, Completed: "x"}
	if err := s.Store.Write(t.Context(), func(x *store.Tx) error {
		for i := range 1000 {
			if err := x.RestoreReport(name(i), &mine); err != nil {
				return err
			}
		}
		if err := x.Reports.MarkUnsent(name(4001)); err != nil {
			return err
		}
		return errors.Join(desire(x, put(name(4001), "1", "x")), desire(x, put(name(5000), "1", "x")))
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 900 {
		m.reports[name(i)] = mine
	}
	m.reports[name(3)] = other    // ours counts
	m.reports[name(4000)] = other // of an object that is not desired: it stays until the agent has looked for the object
	m.reports[name(4001)] = other // of a former object, whose removal is not sent yet
	m.reports[name(5000)] = other // for a key for which this agent has no report yet
	var left []store.Touched
	r.touch = func(all []store.Touched) { left = append(left, all...) }
	for more := true; more; {
		var err error
		if more, err = r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.reports) != 1002 || m.reports[name(3)].Completed != "" {
		t.Errorf("the hub has %d reports", len(m.reports))
	}
	if m.reports[name(5000)].Completed != "x" {
		t.Error("a report that we lacked is gone from the hub")
	}
	var got *wire.Report
	if err := s.Store.View(func(x *store.Tx) (err error) { got, err = x.Reports.Get(name(5000)); return err }); err != nil || got == nil || got.Completed != "x" {
		t.Errorf("recalled %+v: %v", got, err)
	}
	if _, ok := m.reports[name(4001)]; ok {
		t.Error("the report of a former object came back")
	}
	if len(left) != 1001 {
		t.Errorf("%d keys of which only a report is left were shown", len(left))
	}
	if m.calls["reports"] > 3 {
		t.Errorf("%d requests for what differs", m.calls["reports"])
	}
}

// TestRecallComesFirst checks that a new store has the hub's reports before it has desired
// objects, so that completed Jobs and Pods do not run again.
func TestRecallComesFirst(t *testing.T) {
	m := newMemory(t)
	for i := range 2500 {
		m.put(put(name(i), "1", "x"))
		m.reports[name(i)] = wire.Report{UID: "1", State: wire.Applied, Completed: "x"}
	}
	s, _ := m.follow()
	m.before = func(call string) {
		if call != "walk" {
			return
		}
		n := 0
		if err := s.Store.EachReport(func(key.Object, *wire.Report) error { n++; return nil }); err != nil || n != 2500 {
			t.Errorf("%d reports are known at the start of the comparison: %v", n, err)
		}
	}
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if m.calls["walk"] == 0 || m.calls["reports"] > 0 {
		t.Errorf("calls %v", m.calls)
	}
}

// delay sends empty lines for a time, as a hub does while it computes a response.
func (m *memory) delay(w http.ResponseWriter, call string) {
	const often = 400 * time.Millisecond
	for left := m.delays[call]; left > 0; left -= often {
		_, _ = io.WriteString(w, "\n")
		_ = http.NewResponseController(w).Flush()
		<-time.After(often)
	}
}

// TestWalkLongerThanSilence checks that a session continues if its comparison takes longer than the
// time after which a silent hub is considered dead, as long as the hub sends data, even empty lines.
func TestWalkLongerThanSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.heartbeat = 2
		const timeout = silence * 2 * time.Second
		// Only the second delay exceeds the timeout by itself.
		m.delays = map[string]time.Duration{"reports/walk": timeout / 2, "walk": timeout * 5 / 4, "fetch": timeout / 2, "reports/fetch": timeout * 3 / 4}
		for i := range 10 {
			m.put(put(name(i), "1", "x"))
			m.reports[name(i)] = wire.Report{UID: "1", State: wire.Applied}
		}
		hub := Over(protocol.Memory{Handler: m}, wire.Join{Hub: "https://hub", Location: "paris", Token: "x"}, "test", key.Shard{})
		st := opened(t)
		committing(t, st)
		s, _ := m.followBy(st, hub)
		if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
			t.Fatal(err)
		}
	})
}

// desire stores the entry of a put frame.
func desire(x *store.Tx, f wire.Frame) error {
	a, err := store.Admit(f)
	if err != nil {
		return err
	}
	_, _, err = store.Intake{Proven: true}.Apply(x, []store.Arrival{a}, now)
	return err
}
