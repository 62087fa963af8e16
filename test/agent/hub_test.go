package agent_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/internal/wire"
)

// hub says what a test wants an agent to be told, and keeps what it reports. It
// knows the history since its start, so that agents can resume.
type hub struct {
	t      *testing.T
	server *httptest.Server
	join   wire.Join
	// walks counts the walks that agents asked for.
	walks int

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	settings wire.Settings
	revision int64
	content  map[string]wire.Frame
	history  []change
	reports  map[string]wire.Report
	batches  int
	cut      chan struct{} // closed to end all streams
}

type change struct {
	revision int64
	frame    wire.Frame
}

const hubMarker = "marker-1"

func newHub(t *testing.T, location string) *hub {
	t.Helper()
	h := &hub{
		t: t, changed: make(chan struct{}), content: map[string]wire.Frame{}, reports: map[string]wire.Report{},
		revision: 10, settings: wire.Settings{PruneMaxPercent: 30, HeartbeatSeconds: 1}, cut: make(chan struct{}),
	}
	root := "/agent/v1/locations/" + location + "/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root+"desired", h.serveDesired)
	mux.HandleFunc("POST "+root+"walk", h.serveWalk)
	mux.HandleFunc("POST "+root+"reports", h.serveReports)
	mux.HandleFunc("POST "+root+"fetch", h.serveFetch)
	mux.HandleFunc("POST "+root+"reports/walk", h.serveReportsWalk)
	mux.HandleFunc("POST "+root+"reports/fetch", h.serveReportsFetch)
	mux.HandleFunc("POST "+root+"lineage", h.serveLineage)
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get(wire.Header) != wire.ProtocolVersion {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set(wire.Header, wire.ProtocolVersion)
		mux.ServeHTTP(w, r)
	}))
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	h.join = wire.Join{Hub: h.server.URL, CA: string(ca), Location: location, Token: "secret"}
	t.Cleanup(func() {
		h.hangUp()
		h.server.Close()
	})
	return h
}

// hangUp ends all streams without a word.
func (h *hub) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.cut)
	h.cut = make(chan struct{})
}

func (h *hub) put(key, uid, object string) { h.putWith(key, uid, object, wire.Policy{}) }

func (h *hub) putWith(key, uid, object string, policy wire.Policy) {
	h.t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(object)); err != nil {
		h.t.Fatalf("%s: %v", object, err)
	}
	h.change(key, wire.Frame{Put: &wire.Put{
		Key: key, UID: uid, Digest: wire.SumOf(b.Bytes()), Policy: policy, Object: b.Bytes(),
	}})
}

func (h *hub) del(key string, cause wire.Cause) {
	h.change(key, wire.Frame{Del: &wire.Del{Key: key, Cause: cause}})
}

func (h *hub) set(s wire.Settings) {
	h.mu.Lock()
	h.settings = s
	h.mu.Unlock()
	h.change("", wire.Frame{Settings: &s})
}

func (h *hub) change(key string, f wire.Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision++
	if f.Put != nil {
		f.Put.Revision, f.Put.Marker = h.revision, hubMarker
	}
	if f.Put != nil || f.Hold != nil || f.Conflict != nil {
		h.content[key] = f
	} else {
		delete(h.content, key)
	}
	h.history = append(h.history, change{h.revision, f})
	close(h.changed)
	h.changed = make(chan struct{})
}

func sum(key string, f wire.Frame) wire.Sum {
	switch {
	case f.Hold != nil:
		return wire.LeafSum(key, f.Hold.UID, f.Hold.Digest, wire.Policy{})
	case f.Conflict != nil:
		return wire.LeafSum(key, f.Conflict.UID, f.Conflict.Digest, wire.Policy{})
	}
	return wire.LeafSum(key, f.Put.UID, f.Put.Digest, f.Put.Policy)
}

func (h *hub) root() (root wire.Sum) {
	for k, f := range h.content {
		root = root.Add(sum(k, f))
	}
	return root
}

func (h *hub) mark() wire.Frame {
	return wire.Frame{Mark: &wire.Mark{Revision: h.revision, Root: h.root(), Count: len(h.content), Marker: hubMarker}}
}

func (h *hub) hello(marker string, after int64) *wire.Hello {
	return &wire.Hello{
		UID: "0a1b2c3d-location", Marker: hubMarker, Revision: h.revision, Root: h.root(), Count: len(h.content),
		Continuous: marker == "" || marker == hubMarker, Resumed: marker == hubMarker && after >= 10, Settings: h.settings,
	}
}

func (h *hub) serveDesired(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	enc := wire.NewEncoder(w)
	flush := http.NewResponseController(w).Flush
	h.mu.Lock()
	hello := h.hello(r.URL.Query().Get("marker"), after)
	seen, cut := h.revision, h.cut
	if hello.Resumed {
		seen = after - 1 // so that there is a first mark
	}
	h.mu.Unlock()
	if enc.Encode(wire.Frame{Hello: hello}) != nil || flush() != nil {
		return
	}
	ping := time.NewTicker(time.Second)
	defer ping.Stop()
	for {
		h.mu.Lock()
		var frames []wire.Frame
		for _, c := range h.history {
			if c.revision > seen {
				frames = append(frames, c.frame)
			}
		}
		if seen < h.revision {
			frames = append(frames, h.mark())
		}
		seen = h.revision
		changed := h.changed
		h.mu.Unlock()
		for _, f := range frames {
			if enc.Encode(f) != nil {
				return
			}
		}
		if flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-ping.C:
			if enc.Encode(wire.Frame{Ping: &wire.Ping{}}) != nil {
				return
			}
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// serveWalk answers a page of a walk of the content.
func (h *hub) serveWalk(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.walks++
	leaves := map[string]wire.Sum{}
	for k, f := range h.content {
		leaves[k] = sum(k, f)
	}
	h.answerWalk(w, r, leaves)
}

func (h *hub) answerWalk(w http.ResponseWriter, r *http.Request, sums map[string]wire.Sum) {
	var leaves []wire.Leaf
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		leaves = append(leaves, wire.Leaf{Key: k, Sum: sums[k]})
	}
	index, err := wire.NewIndex(leaves)
	dec := wire.NewDecoder(r.Body)
	var walk wire.Walk
	if err := errors.Join(err, dec.Decode(&walk)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	frames := []wire.Frame{{Hello: h.hello(walk.Marker, walk.After)}}
	for _, part := range index.Answer(linesOf[wire.Span](dec)) {
		frames = append(frames, wire.Frame{Part: &part})
	}
	h.answer(w, append(frames, h.mark()))
}

func (h *hub) serveFetch(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var frames []wire.Frame
	for _, asked := range linesOf[wire.Fetch](wire.NewDecoder(r.Body)) {
		f, ok := h.content[asked.Key]
		if !ok {
			f = wire.Frame{Del: &wire.Del{Key: asked.Key, Cause: wire.Walked}}
		}
		frames = append(frames, f)
	}
	h.answer(w, append(frames, h.mark()))
}

func (h *hub) answer(w http.ResponseWriter, frames []wire.Frame) {
	enc := wire.NewEncoder(w)
	for _, f := range frames {
		if enc.Encode(f) != nil {
			return // the agent is gone
		}
	}
}

// linesOf reads the lines that are left of a body.
func linesOf[T any](dec *wire.Decoder) (all []T) {
	for {
		var line T
		if dec.Decode(&line) != nil {
			return all
		}
		all = append(all, line)
	}
}

func (h *hub) serveReports(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches++
	for dec := wire.NewDecoder(r.Body); ; {
		var l wire.ReportLine
		if dec.Decode(&l) != nil {
			break
		}
		if l.Removed {
			delete(h.reports, l.Key)
		} else {
			h.reports[l.Key] = *l.Report
		}
	}
	if err := wire.NewEncoder(w).Encode(wire.ReportsAnswer{Revision: h.revision}); err != nil {
		h.t.Error(err)
	}
}

func (h *hub) serveReportsWalk(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	leaves := map[string]wire.Sum{}
	for k, report := range h.reports {
		leaves[k] = report.Sum()
	}
	h.answerWalk(w, r, leaves)
}

func (h *hub) serveReportsFetch(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	enc := wire.NewEncoder(w)
	for _, asked := range linesOf[wire.Fetch](wire.NewDecoder(r.Body)) {
		line := wire.ReportLine{Key: asked.Key, Removed: true}
		if report, ok := h.reports[asked.Key]; ok {
			line.Report, line.Removed = &report, false
		}
		if enc.Encode(line) != nil {
			return
		}
	}
}

// serveLineage says that all that was ever delivered is of this log.
func (h *hub) serveLineage(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := wire.NewEncoder(w).Encode(wire.LineageAnswer{
		Marker: hubMarker, Revision: h.revision,
		Spans: map[string][]wire.Revisions{hubMarker: {{First: 1, Last: h.revision}}},
	}); err != nil {
		h.t.Error(err)
	}
}

func (h *hub) report(key string) (wire.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.reports[key]
	return r, ok
}

func (h *hub) reported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]string, 0, len(h.reports))
	for k := range h.reports {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
