package hubclient

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// memory is a hub with desired objects and reports in memory. It counts the calls and bytes, and
// can close the connection in the middle of a response.
type memory struct {
	t *testing.T

	mu       sync.Mutex
	content  map[string]wire.Frame
	reports  map[string]wire.Report
	revision int64
	marker   string
	// before is called before each response; it may change the fields.
	before func(call string)
	// left is the number of bytes before the connection is closed; negative for no limit.
	left int
	// heartbeat is the interval in the hello; delays are the times before responses, by call.
	heartbeat int
	delays    map[string]time.Duration
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

// follow returns a session with the hub, and a reporter.
func (m *memory) follow() (*Session, *Reporter) {
	st, hub := hubWith(m.t, m)
	return m.followBy(st, hub)
}

// followBy returns a session of a client of the hub with a store, and a reporter.
func (m *memory) followBy(st *store.Store, hub *Client) (*Session, *Reporter) {
	link := linkTo(hub, st)
	r := NewReporter(link, counter(), func([]store.Touched) {}, func() bool { return true })
	return NewSession(link, m, r, counter(), counter()), r
}

// Greeted implements Follower.
func (m *memory) Greeted(bool) {}

// Opened implements Follower.
func (m *memory) Opened(bool) {}

// Landed implements Follower.
func (m *memory) Landed([]store.Touched) {}

// InspectRequested implements Follower.
func (m *memory) InspectRequested(wire.InspectRequest) {}

// Superseded implements Follower.
func (m *memory) Superseded(string) {}

func (m *memory) put(f wire.Frame) {
	m.revision++
	m.content[f.Put.Key] = f
}

func (m *memory) hello() wire.Frame {
	root := rootOf(slices.Collect(maps.Values(m.content))...)
	return wire.Frame{Hello: &wire.Hello{
		UID: "location-uid", Marker: m.marker, Revision: m.revision, Root: root, Count: len(m.content), Continuous: true,
		Settings: wire.Settings{HeartbeatSeconds: m.heartbeat}, KeepsAggregated: true,
	}}
}

func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, call := route.Parse(r.URL.Path)
	m.before(call)
	request, err := httputil.DumpRequest(r, true)
	if err != nil {
		return // the agent has closed the connection
	}
	_, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	m.calls[call]++
	m.up += len(request)
	var b bytes.Buffer
	for _, line := range m.answer(call, wire.NewDecoder(bytes.NewReader(body))) {
		b.WriteString(lines(line))
	}
	m.down, m.largest = m.down+b.Len(), max(m.largest, b.Len())
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	m.delay(w, call)
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
		return m.compare(sums, body)
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
		return m.compare(sums, body)
	case "reports/fetch":
		for _, f := range restOf[wire.Fetch](body) {
			line := wire.ReportLine{Key: f.Key, Removed: true}
			if r, ok := m.reports[f.Key]; ok {
				line = wire.ReportLine{Key: f.Key, Report: &r}
			}
			out = append(out, line)
		}
		return out
	case route.LogIdentity:
		spans := map[string][]wire.Revisions{m.marker: {{First: 1, Last: m.revision}}}
		return []any{wire.LogIdentityResponse{Marker: m.marker, Revision: m.revision, Spans: spans}}
	case route.Namespaces:
		return []any{wire.NamespacesResponse{Marker: m.marker, Revision: m.revision}}
	default: // reports
		for _, l := range restOf[wire.ReportLine](body) {
			if delete(m.reports, l.Key); l.Report != nil {
				m.reports[l.Key] = *l.Report
			}
		}
		return []any{wire.ReportsAnswer{Revision: m.revision}}
	}
}

func (m *memory) compare(sums map[string]wire.Sum, body *wire.Decoder) []any {
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
	for _, difference := range index.Answer(restOf[wire.Span](body)) {
		out = append(out, wire.Frame{RangeDifference: &difference})
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

// keysOf returns the keys and content hashes of the entries in a store.
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
