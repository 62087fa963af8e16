package protocol

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// hubFaultCases are requirements on an agent whose hub has faults.
func hubFaultCases() []agentCase {
	return []agentCase{
		{"Refusals", agentIsRefused},
		{"Silence", agentReceivesNothing},
		{"Replaced", agentIsReplaced},
		{"RetryAfter", agentIsAskedToWait},
		{"ReportsAgain", agentReportsAgain},
		{"ReportsRefused", agentsReportIsRefused},
		{"NewerHub", agentOfANewerHub},
	}
}

// respond returns a handler that answers with lines, as a hub does.
func respond(lines ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer{lines: lines}.write(w) }
}

// agentIsRefused: for any error of a hub, an agent keeps its objects, and repeats the request at a low
// rate.
func agentIsRefused(e *trial) {
	e.put("one", "1")
	e.put("two", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	answers := map[string]http.HandlerFunc{
		"401": refuse(http.StatusUnauthorized), "403": refuse(http.StatusForbidden), "404": refuse(http.StatusNotFound),
		"410": refuse(http.StatusGone), "500": refuse(http.StatusInternalServerError), "503": refuse(http.StatusServiceUnavailable),
		"nothing": respond(), "garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\x00\xff{]\n{\"hello\":7}\n") },
		"a page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>please log in</html>") },
		"a list":     respond(map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}}),
		"no hello":   respond(wire.Frame{Del: &wire.Del{Key: KeyOf("one"), Cause: wire.Deleted}}),
		"a location": respond(wire.Frame{Bye: &wire.Bye{Reason: wire.ByeRemoved}}),
		"another protocol": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(wire.Header, "7")
			w.Write(Lines(wire.Frame{Hello: &wire.Hello{UID: "u", Marker: "m", Revision: 1, Continuous: true}})) //nolint:errcheck // an agent that is gone needs none
		},
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		answer := answers[name]
		sessions, walks, fetches := e.hub.Calls(route.Desired), e.hub.Calls(route.Walk), e.hub.Calls(route.Fetch)
		e.hub.Instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
			answer(w, r)
			return true
		})
		e.hub.HangUp()
		<-time.After(10 * time.Minute)
		if n := e.hub.Calls(route.Desired) - sessions; n < 5 || n > 60 {
			e.Errorf("%s: the agent has opened %d sessions in ten minutes", name, n)
		}
		e.hub.Instead(nil)
		e.put("two", name)
		e.converged()
		if e.hub.Calls(route.Walk) > walks+len(calls)*60 || e.hub.Calls(route.Fetch) > fetches+60 {
			e.Errorf("%s: the agent repeats its calls without end", name)
		}
	}
}

// agentReceivesNothing: an agent ends a session without heartbeats.
func agentReceivesNothing(e *trial) {
	e.hub.Set(func(s *wire.Settings) { s.HeartbeatSeconds = 10 })
	e.agent.Start()
	defer e.agent.Stop()
	e.put("one", "1")
	e.converged()
	var opened []time.Time
	var mu sync.Mutex
	e.hub.Instead(func(w http.ResponseWriter, r *http.Request, call string) bool {
		if call != route.Desired {
			return false
		}
		mu.Lock()
		opened = append(opened, time.Now())
		mu.Unlock()
		e.hub.mu.Lock()
		hello := wire.Frame{Hello: responder{e.hub}.hello(e.hub.log.revision, place{}, true)}
		e.hub.rules.learn(call, []any{hello})
		e.hub.mu.Unlock()
		respond(hello)(w, r)
		<-r.Context().Done()
		return true
	})
	e.hub.HangUp()
	e.within(func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(opened) < 3 {
			return fmt.Sprintf("it has opened %d sessions", len(opened))
		}
		// After a hello the agent waits for three heartbeats, and then for its backoff.
		if d := opened[2].Sub(opened[1]); d < 30*time.Second || d > 100*time.Second {
			e.Errorf("it waited for %s", d)
		}
		return ""
	})
	e.hub.Instead(nil)
	e.put("one", "2")
	e.converged()
}

// agentIsReplaced: an agent whose session was replaced waits before it opens another one.
func agentIsReplaced(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	e.put("one", "1")
	e.converged()
	other, err := e.hub.Client().Open(e.Context(), 0, "")
	if err != nil {
		e.Fatal(err)
	}
	sessions, begun := e.hub.Calls(route.Desired), time.Now()
	e.connected(sessions)
	if d := time.Since(begun); d < 10*time.Second {
		e.Errorf("it is back after %s", d)
	}
	other.Close()
	e.put("one", "2")
	e.converged()
}

// agentIsAskedToWait: an agent obeys Retry-After.
func agentIsAskedToWait(e *trial) {
	for _, call := range []string{route.Desired, route.Reports} {
		var last atomic.Int64
		var early atomic.Bool
		times := 3
		e.hub.Instead(func(w http.ResponseWriter, _ *http.Request, called string) bool {
			if called != call || times == 0 {
				return false
			}
			times--
			if now := time.Now().UnixNano(); now-last.Swap(now) < int64(7*time.Second) {
				early.Store(true)
			}
			w.Header().Set("Retry-After", "7")
			refused(http.StatusTooManyRequests, "later").write(w)
			return true
		})
		e.agent.Start()
		e.put(call[:3], "1")
		e.converged()
		e.agent.Stop()
		if early.Load() {
			e.Errorf("%s: it repeated the call too early", call)
		}
	}
}

// agentReportsAgain: an agent repeats a report until the response has its revision.
func agentReportsAgain(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	answers := []http.HandlerFunc{
		refuse(http.StatusServiceUnavailable), refuse(http.StatusConflict), refuse(http.StatusInsufficientStorage),
		respond(), respond(wire.ReportsAnswer{}), respond("x"),
	}
	var mu sync.Mutex
	e.hub.Instead(func(w http.ResponseWriter, r *http.Request, call string) bool {
		mu.Lock()
		defer mu.Unlock()
		if call != route.Reports || len(answers) == 0 {
			return false
		}
		answers[0](w, r)
		answers = answers[1:]
		return true
	})
	e.put("one", "1")
	e.converged()
	if len(answers) > 0 {
		e.Errorf("%d responses were not used", len(answers))
	}
}

// agentsReportIsRefused: a refused report does not delay others, and is repeated while its object is
// desired.
func agentsReportIsRefused(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.connected(0)
	var refusing atomic.Int64
	refusing.Store(3)
	e.hub.Instead(func(w http.ResponseWriter, r *http.Request, call string) bool {
		if call != route.Reports {
			return false
		}
		body, err := io.ReadAll(r.Body)
		lines, bad := bodyOf[wire.ReportLine](body, nil)
		if err != nil || bad != nil {
			return true
		}
		var refused []wire.RefusedReport
		var rest []any
		for _, l := range lines {
			if l.Key == KeyOf("one") && refusing.Add(-1) >= 0 {
				refused = append(refused, wire.RefusedReport{Key: l.Key, Message: "not yet"})
				continue
			}
			rest = append(rest, l)
		}
		e.hub.mu.Lock()
		a := responder{e.hub}.serveReports(r, Lines(rest...))
		e.hub.mu.Unlock()
		answered := a.lines[0].(wire.ReportsAnswer)
		answered.Refused = append(answered.Refused, refused...)
		respond(answered)(w, r)
		return true
	})
	e.put("one", "1")
	e.put("two", "1")
	e.converged()
	if refusing.Load() > 0 {
		e.Error("the report was not sent again")
	}
}

// agentOfANewerHub: an agent ignores unknown frames and fields.
func agentOfANewerHub(e *trial) {
	for i := range 3 {
		e.put(fmt.Sprint("n", i), "1")
	}
	e.hub.Instead(func(w http.ResponseWriter, r *http.Request, call string) bool {
		if _, newer := w.(*newerWriter); newer || call != route.Desired && call != route.Walk && call != route.Fetch {
			return false
		}
		e.hub.mu.Lock()
		e.hub.calls[call]-- // ServeHTTP counts it again
		e.hub.mu.Unlock()
		e.hub.ServeHTTP(&newerWriter{w}, r)
		return true
	})
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	e.put("n0", "2")
	e.del("n1")
	e.converged()
	walks := e.hub.Calls(route.Walk)
	e.hub.HangUp()
	e.put("n2", "3")
	e.converged()
	e.unasked(route.Walk, walks)
}

// newerWriter adds frames and fields to each line.
type newerWriter struct{ http.ResponseWriter }

var firstField = regexp.MustCompile(`(?m)^\{"([a-z]+)":\{"`)

func (w *newerWriter) Write(b []byte) (int, error) {
	extended := firstField.ReplaceAll(b, []byte(`{"$1":{"newer":[1],"`))
	extended = bytes.ReplaceAll(extended, []byte("\n"), []byte("\n\n{\"newer\":{\"x\":1}}\n"))
	_, err := w.ResponseWriter.Write(extended)
	return len(b), err
}

// Unwrap is for http.ResponseController.
func (w *newerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
