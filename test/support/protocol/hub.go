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

// Hub is a naive hub in memory with one location. It has a log of frames, and computes the desired
// content of the location from the log at each request. It stores the reports of agents, and records
// requests that an agent must not send. Its methods are what tests do to a hub; responder answers the
// requests of agents. It is safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	location key.Location
	uid      string
	token    string
	tokens   int
	gone     bool
	log      frameLog
	reports  reportStore
	settings wire.Settings
	status   wire.AgentStatus
	changed  chan struct{} // closed and replaced at each change
	// newest is the number of the newest session, life counts starts, and cut counts calls of HangUp.
	newest, life, cut int
	calls             map[string]int
	inspections       inspections
	rules             rules
	// instead, if not nil, may answer a request instead of the hub. It reports whether it did.
	instead func(w http.ResponseWriter, r *http.Request, call string) bool
}

// NewHub returns a hub with the first marker in its log.
func NewHub(location key.Location) *Hub {
	h := &Hub{
		location: location, uid: "0a1b2c3d-location", log: frameLog{revision: 10}, reports: reportStore{location, map[string]wire.Report{}},
		changed: make(chan struct{}), calls: map[string]int{}, inspections: inspections{waits: map[string]chan []byte{}}, rules: newRules(),
		settings: wire.Settings{PruneMaxPercent: 30, HeartbeatSeconds: 1},
	}
	h.NewToken()
	h.Restart()
	return h
}

// do makes a change and wakes all sessions.
func (h *Hub) do(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}

// Restart ends all sessions and adds a marker to the log, as a restart of the hub does.
func (h *Hub) Restart() {
	h.do(func() {
		h.life++
		h.log.restart(h.life)
	})
}

// Restore restarts the hub with a copy of its log that ends at a revision.
func (h *Hub) Restore(to int64) {
	h.do(func() { h.log.restore(to) })
	h.Restart()
}

// Forget drops the history, so that no session can be resumed.
func (h *Hub) Forget() { h.do(h.log.forget) }

// Revision returns the newest revision.
func (h *Hub) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.revision
}

// Write appends a frame of an object to the log.
func (h *Hub) Write(f wire.Frame) {
	h.do(func() {
		h.log.add(f)
		dropReports(h)
	})
}

// Put makes an object, in JSON, desired at the location.
func (h *Hub) Put(k, uid, object string) { h.PutWith(k, uid, object, wire.Policy{}) }

// PutWith is Put with a policy.
func (h *Hub) PutWith(k, uid, object string, policy wire.Policy) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(object)); err != nil {
		panic(fmt.Sprintf("%s: %v", object, err))
	}
	h.Write(wire.Frame{Put: &wire.Put{Key: k, UID: uid, Digest: wire.SumOf(b.Bytes()), Policy: policy, Object: b.Bytes()}})
}

// Del ends that an object is desired at the location.
func (h *Hub) Del(k string, cause wire.Cause) {
	h.Write(wire.Frame{Del: &wire.Del{Key: k, Cause: cause}})
}

// Set changes the settings that the hub sends to the location's agent.
func (h *Hub) Set(change func(*wire.Settings)) {
	h.do(func() {
		change(&h.settings)
		dropReports(h)
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

// HangUp ends all sessions without a bye frame.
func (h *Hub) HangUp() { h.do(func() { h.cut++ }) }

// Instead sets a function that is called first for each authenticated request. The hub answers the
// request if the function returns false. nil removes the function.
func (h *Hub) Instead(answer func(w http.ResponseWriter, r *http.Request, call string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instead = answer
}

// Report returns the last report with a key.
func (h *Hub) Report(k string) (wire.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.reports.all[k]
	return r, ok
}

// Reported returns the keys of all reports, in order.
func (h *Hub) Reported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.reports.all))
}

// AgentStatus returns the last status that the agent has sent.
func (h *Hub) AgentStatus() wire.AgentStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// Calls returns how often a call was made.
func (h *Hub) Calls(call string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[call]
}

// Faults describes the requests that an agent must not send.
func (h *Hub) Faults() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.rules.faults)
}

// Join returns a join token for an agent that reaches the hub at a URL.
func (h *Hub) Join(url, ca string) wire.Join {
	h.mu.Lock()
	defer h.mu.Unlock()
	return wire.Join{Hub: url, CA: ca, Location: string(h.location), Token: h.token}
}

// Client returns a client that reaches the hub without a network.
func (h *Hub) Client() *Client {
	return &Client{Join: h.Join("https://hub", ""), HTTP: &http.Client{Transport: Memory{h}}}
}

// Start serves the hub over TLS until a test ends.
func (h *Hub) Start(t testing.TB) wire.Join {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // agents close connections
	server.StartTLS()
	t.Cleanup(func() {
		h.HangUp()
		server.CloseClientConnections()
		server.Close()
	})
	return h.Join(server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
}

// content returns the desired content of the location at a revision, by key. It is empty during a purge.
func (h *Hub) content(rev int64) map[string]wire.Frame {
	if h.settings.Purge {
		return map[string]wire.Frame{}
	}
	return h.log.content(rev)
}

// dropReports drops reports that are no longer requested, and records that in the settings.
func dropReports(h *Hub) {
	if h.reports.drop(&h.settings, h.content(h.log.revision)) {
		h.log.revision++
		h.settings.Dropped = h.log.revision
	}
}
