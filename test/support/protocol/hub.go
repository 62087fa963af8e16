package protocol

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Hub is a naive hub in memory, with one location: a log of frames, of which what the
// location is to have is computed anew each time. It keeps what agents report, and notes
// what they send that no agent may. Its methods may be called from any goroutine.
type Hub struct {
	mu       sync.Mutex
	location key.Location
	uid      string
	token    string
	tokens   int
	gone     bool
	revision int64
	log      []logged
	markers  []place
	reports  map[string]wire.Report
	settings wire.Settings
	told     wire.AgentStatus
	// window is the revision from which on a session can be resumed.
	window  int64
	changed chan struct{} // closed and replaced at each change
	// newest is the newest session, life counts starts, and cut cuts sessions.
	newest, life, cut int
	asked             map[string]int
	// looks are what the agent is to be asked next, waits who waits for the answers, by ID,
	// and questions how many there were.
	looks     []wire.Look
	waits     map[string]chan []byte
	questions int
	rules     rules
	// instead answers in the hub's place if it says that it did.
	instead func(w http.ResponseWriter, r *http.Request, call string) bool
}

// logged is what one revision did: the frame of a key.
type logged struct {
	revision int64
	frame    wire.Frame
}

// place is a marker, and a revision that goes by its name.
type place struct {
	marker   string
	revision int64
}

// NewHub makes a hub whose log has its first marker.
func NewHub(location key.Location) *Hub {
	h := &Hub{
		location: location, uid: "0a1b2c3d-location", revision: 10, reports: map[string]wire.Report{},
		changed: make(chan struct{}), asked: map[string]int{}, waits: map[string]chan []byte{}, rules: newRules(),
		settings: wire.Settings{PruneMaxPercent: 30, HeartbeatSeconds: 1},
	}
	h.NewToken()
	h.Restart()
	return h
}

// do changes something and wakes those who wait.
func (h *Hub) do(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// Restart starts the hub anew on its log.
func (h *Hub) Restart() {
	h.do(func() {
		h.life++
		h.revision++
		h.markers = append(h.markers, place{fmt.Sprintf("marker-%d-%d", h.life, h.revision), h.revision})
	})
}

// Restore starts the hub anew on a copy of its log, which ends at a revision.
func (h *Hub) Restore(to int64) {
	h.do(func() {
		h.log = slices.DeleteFunc(h.log, func(l logged) bool { return l.revision > to })
		h.markers = slices.DeleteFunc(h.markers, func(m place) bool { return m.revision > to })
		h.revision, h.window = to, 0
	})
	h.Restart()
}

// Forget leaves no history to resume a session from.
func (h *Hub) Forget() { h.do(func() { h.window = h.revision + 1; h.revision++ }) }

// Revision is the newest one.
func (h *Hub) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// Write appends a frame to the log: a put, hold, conflict or del.
func (h *Hub) Write(f wire.Frame) {
	h.do(func() {
		h.revision++
		h.log = append(h.log, logged{h.revision, f})
		h.forget()
	})
}

// Put has the location desire an object, which is JSON.
func (h *Hub) Put(k, uid, object string) { h.PutWith(k, uid, object, wire.Policy{}) }

// PutWith has the location desire an object that is treated by a policy.
func (h *Hub) PutWith(k, uid, object string, policy wire.Policy) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(object)); err != nil {
		panic(fmt.Sprintf("%s: %v", object, err))
	}
	h.Write(wire.Frame{Put: &wire.Put{Key: k, UID: uid, Digest: wire.SumOf(b.Bytes()), Policy: policy, Object: b.Bytes()}})
}

// Del has the location desire an object no longer.
func (h *Hub) Del(k string, cause wire.Cause) {
	h.Write(wire.Frame{Del: &wire.Del{Key: k, Cause: cause}})
}

// Set changes what the hub tells the location about itself.
func (h *Hub) Set(change func(*wire.Settings)) {
	h.do(func() {
		change(&h.settings)
		h.forget()
	})
}

// NewToken replaces the location's token.
func (h *Hub) NewToken() {
	h.do(func() {
		h.tokens++
		h.token = fmt.Sprintf("%s.secret-%d", h.location, h.tokens)
	})
}

// Remove removes the location.
func (h *Hub) Remove() { h.do(func() { h.gone = true }) }

// HangUp ends all sessions without a word.
func (h *Hub) HangUp() { h.do(func() { h.cut++ }) }

// Instead has answer called for each request of the location's agent first; the hub
// answers those of which it says that it did not. nil: all.
func (h *Hub) Instead(answer func(w http.ResponseWriter, r *http.Request, call string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instead = answer
}

// Report is what was reported of an object.
func (h *Hub) Report(k string) (wire.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.reports[k]
	return r, ok
}

// Reported are the keys of all reports, in order.
func (h *Hub) Reported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.reports))
}

// Told is what the agent last said of itself.
func (h *Hub) Told() wire.AgentStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// Asked is how often a call was made.
func (h *Hub) Asked(call string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[call]
}

// Faults are what agents have sent that no agent may.
func (h *Hub) Faults() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.rules.faults)
}

// Join is what an agent needs that reaches the hub at a URL.
func (h *Hub) Join(url, ca string) wire.Join {
	h.mu.Lock()
	defer h.mu.Unlock()
	return wire.Join{Hub: url, CA: ca, Location: string(h.location), Token: h.token}
}

// Client reaches the hub without a network.
func (h *Hub) Client() *Client {
	return &Client{Join: h.Join("https://hub", ""), HTTP: &http.Client{Transport: Memory{h}}}
}

// Start serves the hub over TLS until a test ends.
func (h *Hub) Start(t testing.TB) wire.Join {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // agents hang up
	server.StartTLS()
	t.Cleanup(func() {
		h.HangUp()
		server.CloseClientConnections()
		server.Close()
	})
	return h.Join(server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
}

// marker is the name that a revision goes by.
func (h *Hub) marker(revision int64) (name string) {
	for _, m := range h.markers {
		if m.revision <= revision {
			name = m.marker
		}
	}
	return name
}

func (h *Hub) continuous(marker string, revision int64) bool {
	if marker == "" || revision == 0 {
		return marker == "" && revision == 0
	}
	return revision <= h.revision && h.marker(revision) == marker
}

// content is the desired content of the location at a revision, by key.
func (h *Hub) content(at int64) map[string]wire.Frame {
	all := map[string]wire.Frame{}
	if h.settings.Purge {
		return all
	}
	for _, l := range h.log {
		if l.revision > at {
			break
		}
		k, _, has := Subject(l.frame)
		if all[k] = l.frame; !has {
			delete(all, k)
		}
	}
	return all
}

// mark is for an agent that reports what was not placed, or does not, as is hello.
func (h *Hub) mark(at int64, sees bool) *wire.Mark {
	m := &wire.Mark{Revision: at, Marker: h.marker(at)}
	for _, f := range h.content(at) {
		_, leaf, _ := Subject(told(f, sees))
		m.Root, m.Count = m.Root.Add(leaf), m.Count+1
	}
	return m
}

// hello is the first frame of a session or a walk, about a revision, for who remembers a
// place in the log.
func (h *Hub) hello(at int64, remembers place, sees bool) *wire.Hello {
	m := h.mark(at, sees)
	return &wire.Hello{
		UID: h.uid, Marker: m.Marker, Revision: m.Revision, Root: m.Root, Count: m.Count,
		Continuous: h.continuous(remembers.marker, remembers.revision), Settings: asked(h.settings, sees),
	}
}

// delivered says in a put where in the log it is delivered.
func (h *Hub) delivered(f wire.Frame, revision int64, greeted string) wire.Frame {
	if f.Put == nil {
		return f
	}
	p := *f.Put
	p.Revision, p.Marker = revision, h.marker(revision)
	if p.Marker == greeted {
		p.Marker = ""
	}
	f.Put = &p
	return f
}
