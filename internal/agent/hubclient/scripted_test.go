package hubclient

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// scripted is a session with a hub that responds to each call with the next entry of
// a script, and records the requests.
type scripted struct {
	t        *testing.T
	session  *Session
	answers  map[string][]answer
	received []received
	touched  []store.Touched
}

// received is a request that the hub received.
type received struct {
	call  string
	query url.Values
	body  string
}

// answer is the raw body of a response; hang keeps it open.
type answer struct {
	status int
	body   string
	hang   bool
}

// hubWith returns a new store that commits, and a client of a hub with the given handler.
func hubWith(t *testing.T, handler http.Handler) (*store.Store, *Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hub, err := New(Config{Join: wire.Join{Hub: server.URL, CA: string(ca), Location: "paris", Token: "x"}, Agent: "test", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	(&Renewer{client: hub}).lasting("t")
	st := opened(t)
	committing(t, st)
	return st, hub
}

// committing runs a store's commits for the duration of a test.
func committing(t *testing.T, st *store.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// linkTo returns a Link with the state before the first session.
func linkTo(hub *Client, st *store.Store) Link {
	return Link{Client: hub, Store: st, State: NewState(), Log: quiet}
}

func counter() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "n"}) }

// Greeted implements Follower.
func (s *scripted) Greeted(bool) {}

// Opened implements Follower.
func (s *scripted) Opened(bool) {}

// InspectRequested implements Follower.
func (s *scripted) InspectRequested(wire.InspectRequest) {}

// Superseded implements Follower.
func (s *scripted) Superseded(string) {}

// Landed implements Follower.
func (s *scripted) Landed(all []store.Touched) { s.touched = append(s.touched, all...) }

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{t: t, answers: map[string][]answer{}}
	st, hub := hubWith(t, s)
	s.session = NewSession(linkTo(hub, st), s, &Reporter{}, counter(), counter())
	s.session.recall = func(context.Context, func()) error { return nil }
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, call := route.Parse(r.URL.Path)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("read the request: %v", err)
	}
	s.received = append(s.received, received{call: call, query: r.URL.Query(), body: string(body)})
	left := s.answers[call]
	if len(left) == 0 {
		http.Error(w, "the script has ended", http.StatusTeapot)
		return
	}
	a := left[0]
	s.answers[call] = left[1:]
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if _, err := io.WriteString(w, a.body); err != nil {
		s.t.Errorf("answer: %v", err)
	}
	if a.hang {
		if err := http.NewResponseController(w).Flush(); err != nil {
			s.t.Errorf("answer: %v", err)
		}
		<-r.Context().Done()
	}
}

// script appends responses to the script of a call.
func (s *scripted) script(call string, answers ...answer) {
	s.answers[call] = append(s.answers[call], answers...)
}

// once runs one session and returns the error with which it ended.
func (s *scripted) once() error {
	s.t.Helper()
	_, err := s.session.once(limit.Context(s.t, "the session ends"))
	return err
}

// content returns the stored entries by key.
func (s *scripted) content() map[string]store.Want {
	s.t.Helper()
	all := map[string]store.Want{}
	if err := s.session.Store.EachWant(func(o key.Object, w *store.Want) error {
		all[o.Path()] = *w
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *scripted) meta() store.Meta { return *s.session.Store.Meta() }

func lines(frames ...any) string { return string(protocol.Lines(frames...)) }

func hello(revision int64, root wire.Sum, f func(*wire.Hello)) wire.Frame {
	h := wire.Hello{UID: "location-uid", Marker: "m", Revision: revision, Root: root, Continuous: true}
	if f != nil {
		f(&h)
	}
	return wire.Frame{Hello: &h}
}

func resumed(h *wire.Hello) { h.Resumed = true }

func unproven(h *wire.Hello) { h.Continuous, h.Marker = false, "other" }

func newLocation(h *wire.Hello) { h.UID = "another-uid" }

func mark(revision int64, frames ...wire.Frame) wire.Frame {
	return wire.Frame{Mark: &wire.Mark{Revision: revision, Root: rootOf(frames...), Marker: "m"}}
}

func rootOf(frames ...wire.Frame) (root wire.Sum) {
	for _, f := range frames {
		root = root.Add(wire.LeafSum(f.Put.Key, f.Put.UID, f.Put.Digest, f.Put.Policy))
	}
	return root
}

// paged returns the response to a comparison by a hub that has the frames, which must be in key order.
func paged(revision int64, f func(*wire.Hello), frames ...wire.Frame) answer {
	difference := wire.RangeDifference{}
	for _, f := range frames {
		difference.Leaves = append(difference.Leaves, wire.Leaf{Key: f.Put.Key, Sum: rootOf(f)})
	}
	h := hello(revision, rootOf(frames...), f)
	return answer{body: lines(h, wire.Frame{RangeDifference: &difference}, wire.Frame{Mark: &wire.Mark{Revision: revision, Root: h.Hello.Root, Marker: h.Hello.Marker}})}
}

// fetched returns the response to a fetch.
func fetched(revision int64, marker string, frames ...wire.Frame) answer {
	var all []any
	for _, f := range frames {
		all = append(all, f)
	}
	return answer{body: lines(append(all, wire.Frame{Mark: &wire.Mark{Revision: revision, Marker: marker}})...)}
}

// cut returns a response without its last line.
func cut(a answer) answer {
	i := strings.LastIndex(strings.TrimRight(a.body, "\n"), "\n")
	return answer{body: a.body[:i+1]}
}

var bye = wire.Frame{Bye: &wire.Bye{Reason: wire.ByeShutdown}}

// filled returns a session that has stored a and b at revision 10.
func filled(t *testing.T) (*scripted, wire.Frame, wire.Frame) {
	t.Helper()
	s := newScripted(t)
	a, b := put(keyA, "1", "a"), put(keyB, "1", "b")
	s.script("desired", answer{body: lines(hello(10, rootOf(a, b), nil))})
	s.script("walk", paged(10, nil, a, b))
	s.script("fetch", fetched(10, "m", a, b))
	if err := s.once(); !errors.Is(err, errWalked) {
		t.Fatal(err)
	}
	if m := s.meta(); m.Revision != 10 || m.Marker != "m" || m.LocationUID != "location-uid" || m.Count != 2 {
		t.Fatalf("after the first walk: %+v", m)
	}
	return s, a, b
}
