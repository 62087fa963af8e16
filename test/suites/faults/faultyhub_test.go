package faults

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// faultyHub is a broken hub.
type faultyHub struct {
	server *httptest.Server
	// requests counts the requests.
	requests atomic.Int64
	// answer is how it is broken now.
	answer atomic.Pointer[http.HandlerFunc]
}

// startFaultyHub starts a faulty hub at the address of a stopped hub.
func startFaultyHub(t *testing.T, replaced *env.Hub) *faultyHub {
	t.Helper()
	h := &faultyHub{}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		(*h.answer.Load())(w, r)
	}))
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{replaced.Certificate()}}
	env.Serve(t, h.server)
	return h
}

// trusting is the join token with another address of the hub, and with one certificate
// more that the agent trusts.
func trusting(t *testing.T, token, address string, certificate []byte) string {
	t.Helper()
	join, err := wire.ParseJoin(token)
	if err != nil {
		t.Fatal(err)
	}
	join.Hub = "https://" + address
	join.CA += string(certificate)
	return join.Encode()
}

// status answers everything with a code.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// text answers everything with a text.
func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(wire.Header, wire.ProtocolVersion)
		_, _ = io.WriteString(w, body) // the agent may have gone
	}
}

// empty answers like a hub without desired objects for the location. hello returns the first
// frame, given the log position that the agent knows. marked reports whether a comparison ends with
// a bookmark, as a complete one does.
func empty(hello func(after int64, marker string) wire.Hello, marked bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.Header, wire.ProtocolVersion)
		enc, dec := wire.NewEncoder(w), wire.NewDecoder(r.Body)
		switch _, call := route.Parse(r.URL.Path); call {
		case route.Desired:
			h := hello(number(r.URL.Query().Get("after")), r.URL.Query().Get("marker"))
			// Without the outcome: an agent that has gone is another test's.
			_ = enc.Encode(wire.Frame{Hello: &h})
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(observation / 2):
			}
		case route.Walk, route.ReportsWalk:
			var walk wire.Walk
			if dec.Decode(&walk) != nil {
				return
			}
			h := hello(walk.After, walk.Marker)
			_ = enc.Encode(wire.Frame{Hello: &h})
			for {
				var s wire.Span
				if dec.Decode(&s) != nil {
					break
				}
				_ = enc.Encode(wire.Frame{RangeDifference: &wire.RangeDifference{From: s.From, To: s.To}})
			}
			if marked {
				_ = enc.Encode(wire.Frame{Mark: &wire.Mark{Revision: h.Revision, Marker: h.Marker}})
			}
		default:
			http.Error(w, "no", http.StatusNotFound)
		}
	}
}

func number(s string) (n int64) {
	for _, c := range s {
		n = 10*n + int64(c-'0')
	}
	return n
}

// TestFaultyHub shows that nothing a broken hub says makes the agent delete or
// change anything, and that it goes on with a sound one.
func TestFaultyHub(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	h := startFaultyHub(t, e.Hub)
	e.Agent.Kill()
	e.Agent.Start("--join", world.Through(t, e.Token("edge"), e.Link))
	uid, err := e.LocationUID("edge")
	if err != nil {
		t.Fatal(err)
	}
	hello := func(uid string, revision int64, marker string, continuous bool) wire.Hello {
		return wire.Hello{
			UID: uid, Marker: marker, Revision: revision, Continuous: continuous,
			Settings: wire.Settings{PruneMaxPercent: 100, HeartbeatSeconds: 1},
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"401": status(http.StatusUnauthorized), "403": status(http.StatusForbidden), "404": status(http.StatusNotFound),
		"410": status(http.StatusGone), "500": status(http.StatusInternalServerError),
		"nothing": text(""), "garbage": text("\x00\xff{]\n{\"hello\":7}\n"), "page": text("<html>please log in</html>"),
		"list": text(`{"kind":"List","apiVersion":"v1","items":[]}` + "\n"),
		"empty": empty(func(after int64, _ string) wire.Hello {
			return hello(uid, after+1000, "another", false)
		}, true),
		"empty-unfinished": empty(func(after int64, marker string) wire.Hello {
			return hello(uid, after+1, marker, true)
		}, false),
		"empty-past": empty(func(_ int64, marker string) wire.Hello {
			return hello(uid, 1, marker, true)
		}, true),
		"empty-elsewhere": empty(func(after int64, marker string) wire.Hello {
			return hello("00000000-another-location", after+1, marker, true)
		}, true),
	} {
		t.Run(name, func(t *testing.T) {
			e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
			e.throughHub(h, name, answer)
		})
	}
	e.Invariants()
}

// throughHub leads the location through a time with a faulty hub.
func (e *edge) throughHub(h *faultyHub, name string, answer http.HandlerFunc) {
	kept, edited := name+"-kept", name+"-edited"
	e.put(kept, "1")
	e.put(edited, "1")
	e.waitFor(kept, "1")
	e.waitFor(edited, "1")
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.States[wire.Applied] == s.Desired })
	before, start := e.uid(edited), time.Now()

	h.answer.Store(&answer)
	h.requests.Store(0)
	e.Link.Redirect(h.server.URL)
	env.Eventually(e.t, soon, func() error {
		if h.requests.Load() < 3 {
			return errors.New("the agent has not asked three times")
		}
		return nil
	})
	e.put(edited, "2")
	e.staysAs(edited, "1")
	e.tamper(kept)
	e.waitFor(kept, "1")
	if n := e.deletions(start); n > 0 {
		e.t.Errorf("the agent deleted %d objects", n)
	}

	e.Link.Redirect(e.Hub.URL)
	e.waitFor(edited, "2")
	if e.uid(edited) != before {
		e.t.Error("the edited object was replaced")
	}
}
