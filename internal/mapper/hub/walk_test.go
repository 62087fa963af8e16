package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// memory is a hub that has content and reports in memory, counts what is said,
// and may hang up in the middle of an answer.
type memory struct {
	t *testing.T

	mu       sync.Mutex
	content  map[string]wire.Frame
	reports  map[string]wire.Report
	revision int64
	marker   string
	// before is called before each answer; it may change anything.
	before func(call string)
	// left is how many bytes may still be said before it hangs up; negative: any number.
	left int
	// heartbeat is what the hello says; lingers is how long an answer takes.
	heartbeat int
	lingers   map[string]time.Duration
	// calls, up and down count requests and their bytes, headers included.
	calls    map[string]int
	up, down int
	largest  int // answer
}

func newMemory(t *testing.T) *memory {
	return &memory{
		t: t, content: map[string]wire.Frame{}, reports: map[string]wire.Report{}, revision: 10, marker: "m",
		before: func(string) {}, left: -1, calls: map[string]int{},
	}
}

// follow makes a session with the hub, and a reporter.
func (m *memory) follow() (*Session, *Reporter) {
	st, hub := hubBy(m.t, m)
	link := linkTo(hub, st)
	r := NewReporter(link, counter(), func([]store.Touched) {})
	return NewSession(link, m, r, counter(), counter()), r
}

// Greeted implements Follower.
func (m *memory) Greeted(bool) {}

// Opened implements Follower.
func (m *memory) Opened(bool) {}

// Landed implements Follower.
func (m *memory) Landed([]store.Touched) {}

func (m *memory) put(f wire.Frame) {
	m.revision++
	m.content[f.Put.Key] = f
}

func (m *memory) hello() wire.Frame {
	root := rootOf(slices.Collect(maps.Values(m.content))...)
	return wire.Frame{Hello: &wire.Hello{
		UID: "location-uid", Marker: m.marker, Revision: m.revision, Root: root, Count: len(m.content), Continuous: true,
		Settings: wire.Settings{HeartbeatSeconds: m.heartbeat},
	}}
}

func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, call := route.Of(r.URL.Path)
	m.before(call)
	asked, err := httputil.DumpRequest(r, true)
	if err != nil {
		return // the agent has hung up
	}
	_, body, _ := bytes.Cut(asked, []byte("\r\n\r\n"))
	m.calls[call]++
	m.up += len(asked)
	var b bytes.Buffer
	for _, line := range m.answer(call, wire.NewDecoder(bytes.NewReader(body))) {
		b.WriteString(lines(line))
	}
	m.down, m.largest = m.down+b.Len(), max(m.largest, b.Len())
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	m.linger(w, call)
	if m.left >= 0 && b.Len() > m.left {
		_, _ = w.Write(b.Bytes()[:m.left])
		_ = http.NewResponseController(w).Flush()
		m.left = 0
		panic(http.ErrAbortHandler)
	}
	if m.left >= 0 {
		m.left -= b.Len()
	}
	_, _ = w.Write(b.Bytes())
}

func (m *memory) answer(call string, body *wire.Decoder) (out []any) {
	mark := wire.Frame{Mark: &wire.Mark{Revision: m.revision, Marker: m.marker}}
	switch call {
	case "desired":
		return []any{m.hello(), bye}
	case "walk":
		sums := map[string]wire.Sum{}
		for k, f := range m.content {
			sums[k] = rootOf(f)
		}
		return m.parts(sums, body)
	case "fetch":
		for _, f := range restOf[wire.Fetch](body) {
			frame, ok := m.content[f.Key]
			if !ok {
				frame = del(f.Key, wire.Walked)
			} else {
				p := *frame.Put
				p.Revision, p.Marker = m.revision, m.marker
				frame.Put = &p
			}
			if out = append(out, frame); len(out) == 300 {
				break // an answer that has grown large
			}
		}
		return append(out, mark)
	case "reports/walk":
		sums := map[string]wire.Sum{}
		for k, r := range m.reports {
			sums[k] = r.Sum()
		}
		return m.parts(sums, body)
	case "reports/fetch":
		for _, f := range restOf[wire.Fetch](body) {
			line := wire.ReportLine{Key: f.Key, Removed: true}
			if r, ok := m.reports[f.Key]; ok {
				line = wire.ReportLine{Key: f.Key, Report: &r}
			}
			out = append(out, line)
		}
		return out
	case route.Lineage:
		spans := map[string][]wire.Revisions{m.marker: {{First: 1, Last: m.revision}}}
		return []any{wire.LineageAnswer{Marker: m.marker, Revision: m.revision, Spans: spans}}
	default: // reports
		for _, l := range restOf[wire.ReportLine](body) {
			if delete(m.reports, l.Key); l.Report != nil {
				m.reports[l.Key] = *l.Report
			}
		}
		return []any{wire.ReportsAnswer{Revision: m.revision}}
	}
}

func (m *memory) parts(sums map[string]wire.Sum, body *wire.Decoder) []any {
	var leaves []wire.Leaf
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		leaves = append(leaves, wire.Leaf{Key: k, Sum: sums[k]})
	}
	index, err := wire.NewIndex(leaves)
	var walk wire.Walk
	if err := errors.Join(err, body.Decode(&walk)); err != nil {
		m.t.Error(err)
	}
	hello, all := m.hello(), index.Span("", "")
	hello.Hello.Root, hello.Hello.Count = all.Sum, all.Count
	out := []any{hello}
	for _, part := range index.Answer(restOf[wire.Span](body)) {
		out = append(out, wire.Frame{Part: &part})
	}
	return append(out, wire.Frame{Mark: &wire.Mark{Revision: m.revision, Root: all.Sum, Count: all.Count, Marker: m.marker}})
}

func restOf[T any](dec *wire.Decoder) (all []T) {
	for {
		var line T
		if dec.Decode(&line) != nil {
			return all
		}
		all = append(all, line)
	}
}

// keysOf are the keys and sums of a store's content.
func keysOf(t *testing.T, s *store.Store) map[string]wire.Sum {
	t.Helper()
	all := map[string]wire.Sum{}
	if err := s.EachWant(func(o key.Object, w *store.Want) error {
		all[o.Path()] = w.Sum(o.Path())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func (m *memory) same(t *testing.T, s *store.Store) {
	t.Helper()
	want := map[string]wire.Sum{}
	for k, f := range m.content {
		want[k] = rootOf(f)
	}
	if got := keysOf(t, s); !maps.Equal(got, want) {
		t.Fatalf("the agent has %d entries, the hub %d, or they differ", len(got), len(want))
	}
}

func name(i int) string { return fmt.Sprintf("s/core/configmaps/n/c%05d", i) }

// TestWalkCut cuts a walk at every step of its way. Nothing is removed before
// all of it has been answered, and in the end both sides are the same.
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
	rng := rand.New(rand.NewPCG(1, 2))
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
				if _, ok := before[k]; ok && !s.has(t, k) {
					t.Fatalf("%q was removed by a walk that ended with %v", k, err)
				}
			}
			if s.Store.Meta().Revision == m.revision {
				t.Fatalf("a walk that was cut came to revision %d", m.revision)
			}
			m.left = max(400, budget+budget/3+rng.IntN(200)) // a little further each time
			if cut > 100 {
				t.Fatalf("the walk does not come to its end: %v", err)
			}
		}
		m.left = -1
		m.same(t, s.Store)
	}
}

func (s *Session) has(t *testing.T, k string) (has bool) {
	t.Helper()
	if err := s.Store.View(func(x *store.Tx) error { has = x.HasWant(k); return nil }); err != nil {
		t.Fatal(err)
	}
	return has
}

// TestWalkOfWhatChanges changes the hub between any two answers. The stream goes
// on from the first one's revision, at which nothing has been missed.
func TestWalkOfWhatChanges(t *testing.T) {
	m := newMemory(t)
	for i := range 3000 {
		m.put(put(name(i), "1", "x"))
	}
	s, _ := m.follow()
	rng := rand.New(rand.NewPCG(3, 4))
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

// TestWalkAcrossARestart shows that answers of a hub that has started anew are
// not mixed with those before: its log may be another one by now.
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

// TestBytesInSync shows what it costs to find that nothing differs, and that answers stay
// bounded when much does.
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

// TestReportsAgree makes reports of both sides the same from any state.
func TestReportsAgree(t *testing.T) {
	m := newMemory(t)
	s, r := m.follow()
	mine, other := wire.Report{UID: "1", State: wire.Applied}, wire.Report{UID: "1", State: wire.Applied, Completed: "x"}
	if err := s.Store.Write(t.Context(), func(x *store.Tx) error {
		for i := range 1000 {
			if err := x.Recall(name(i), &mine); err != nil {
				return err
			}
		}
		return desire(x, put(name(5000), "1", "x"))
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 900 {
		m.reports[name(i)] = mine
	}
	m.reports[name(3)] = other    // ours counts
	m.reports[name(4000)] = other // of something that nobody wants any more
	m.reports[name(5000)] = other // of something of which we have not reported yet
	var left []store.Touched
	r.left = func(all []store.Touched) { left = append(left, all...) }
	for more := true; more; {
		var err error
		if more, err = r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.reports) != 1001 || m.reports[name(3)].Completed != "" {
		t.Errorf("the hub has %d reports", len(m.reports))
	}
	if m.reports[name(5000)].Completed != "x" {
		t.Error("a report that we lacked is gone from the hub")
	}
	var got *wire.Report
	if err := s.Store.View(func(x *store.Tx) (err error) { got, err = x.Report(name(5000)); return err }); err != nil || got == nil || got.Completed != "x" {
		t.Errorf("recalled %+v: %v", got, err)
	}
	if len(left) != 1000 {
		t.Errorf("%d keys of which only a report is left were shown", len(left))
	}
	if m.calls["reports"] > 3 {
		t.Errorf("%d requests for what differs", m.calls["reports"])
	}
}

// TestRecallComesFirst shows that a new store has the hub's reports before
// anything is desired, so that what ran once does not run again.
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
			t.Errorf("%d reports are known when the walk begins: %v", n, err)
		}
	}
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if m.calls["walk"] == 0 || m.calls["reports"] > 0 {
		t.Errorf("calls %v", m.calls)
	}
}

// linger sends lines without content, as a hub does that has yet to make an answer.
func (m *memory) linger(w http.ResponseWriter, call string) {
	const often = 400 * time.Millisecond
	for left := m.lingers[call]; left > 0; left -= often {
		_, _ = io.WriteString(w, "\n")
		_ = http.NewResponseController(w).Flush()
		<-time.After(often)
	}
}

// TestWalkLongerThanSilence shows that a session goes on whose walk takes longer than the
// hub may be silent, as long as the hub sends something, even empty lines.
func TestWalkLongerThanSilence(t *testing.T) {
	m := newMemory(t)
	m.heartbeat = 1
	const patience = silence * time.Second
	// All but the second are too short by themselves.
	m.lingers = map[string]time.Duration{"reports/walk": patience / 2, "walk": patience * 5 / 4, "fetch": patience / 2, "reports/fetch": patience * 3 / 4}
	for i := range 10 {
		m.put(put(name(i), "1", "x"))
		m.reports[name(i)] = wire.Report{UID: "1", State: wire.Applied}
	}
	s, _ := m.follow()
	if _, err := s.once(t.Context()); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
}

// desire has what a put frame brings desired.
func desire(x *store.Tx, f wire.Frame) error {
	a, err := store.Admit(f)
	if err != nil {
		return err
	}
	_, _, err = store.Intake{Proven: true}.Apply(x, []store.Arrival{a}, now)
	return err
}
