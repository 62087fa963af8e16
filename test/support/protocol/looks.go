package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// inspections are the inspect requests of a hub. Each response is received once. The Hub's lock protects it.
type inspections struct {
	// unsent have to be sent to the agent; waits has the receivers of the responses, by ID.
	unsent []wire.InspectRequest
	waits  map[string]chan []byte
	count  int
}

// add adds a request whose response is sent to a channel.
func (p *inspections) add(k string, all bool, response chan []byte) {
	p.count++
	q := wire.InspectRequest{ID: fmt.Sprintf("look-%d", p.count), Key: k, All: all}
	p.unsent = append(p.unsent, q)
	p.waits[q.ID] = response
}

// take returns the requests to send.
func (p *inspections) take() []wire.InspectRequest {
	unsent := p.unsent
	p.unsent = nil
	return unsent
}

// claim returns the receiver of the response to a request; nil if there is none, or it has a response.
func (p *inspections) claim(id string) chan []byte {
	response := p.waits[id]
	delete(p.waits, id)
	return response
}

// Inspect requests from the location's agent the live object of a key. It waits for the response until
// the context ends.
func (h *Hub) Inspect(ctx context.Context, k string, all bool) (answer wire.InspectResponse, err error) {
	response := make(chan []byte, 1)
	h.do(func() { h.inspections.add(k, all, response) })
	select {
	case body := <-response:
		return answer, json.Unmarshal(body, &answer)
	case <-ctx.Done():
		return answer, fmt.Errorf("inspect %q: %w", k, ctx.Err())
	}
}

// serveLooked receives the response to an inspect request.
func (a responder) serveLooked(r *http.Request, body []byte) answer {
	id := r.URL.Query().Get("id")
	response := a.hub.inspections.claim(id)
	if response == nil {
		a.hub.rules.wrong("a response to %q, which is no inspect request", id)
		return refused(http.StatusNotFound, "%s", r.URL.Path)
	}
	if len(body) > wire.MaxInspectResponse {
		a.hub.rules.wrong("an inspect response of %d bytes", len(body))
	}
	response <- body
	return answer{lines: []any{struct{}{}}}
}

// agentReportsFirst: an agent creates an object with ReportFirst only after the hub has accepted its
// report.
func agentReportsFirst(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.put("other", "1")
	e.converged()
	var refused atomic.Int64
	e.hub.Instead(func(w http.ResponseWriter, _ *http.Request, call string) bool {
		if call != route.Reports {
			return false
		}
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	object := []byte(`{"apiVersion":"v1","data":{"k":"1"},"kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}`)
	e.hub.Write(wire.Frame{Put: &wire.Put{Key: KeyOf("one"), UID: "uid-one", Digest: wire.SumOf(object), Object: object, ReportFirst: true}})
	e.within(func() string {
		if n := refused.Load(); n < 3 {
			return fmt.Sprintf("the agent has tried to report %d times", n)
		}
		return ""
	})
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	if answer, err := e.hub.Inspect(ctx, KeyOf("one"), false); err != nil || answer.Live != nil {
		e.Errorf("it was created before its report was accepted: %s %+v %v", answer.Live, answer, err)
	}
	e.hub.Instead(nil)
	e.converged()
}

// agentLooks: an agent answers inspect requests for its own objects, and for no others, also while it
// is halted. They change nothing.
func agentLooks(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.converged()
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	inspect := func(name string) wire.InspectResponse {
		e.Helper()
		answer, err := e.hub.Inspect(ctx, KeyOf(name), false)
		if err != nil {
			e.Fatal(err)
		}
		return answer
	}
	same := func(value string) {
		e.Helper()
		answer := inspect("one")
		if answer.Reason != "" || string(answer.Live) != string(answer.Desired) || !strings.Contains(string(answer.Live), value) {
			e.Errorf("for an object that is as desired it answers %s %+v", answer.Live, answer)
		}
	}
	same(`"k":"1"`)
	e.hub.Set(func(s *wire.Settings) { s.Halt = "the location's mapping is Paused" })
	before := e.hub.Calls(route.Reports)
	e.put("one", "2")
	e.within(func() string {
		answer := inspect("one")
		if !strings.Contains(string(answer.Live), `"k":"1"`) || !strings.Contains(string(answer.Desired), `"k":"2"`) {
			return fmt.Sprintf("halted, it answers %s and %s: %s", answer.Live, answer.Desired, answer.Message)
		}
		return ""
	})
	for _, k := range []string{KeyOf("two"), "other/core/configmaps/default/one", "team/core/secrets/kube-system/x", "nonsense", "", strings.Repeat("/", 4)} {
		answer, err := e.hub.Inspect(ctx, k, true)
		if err != nil || answer.Reason == "" || answer.Live != nil || answer.Desired != nil {
			e.Errorf("for %q it answers %+v: %v", k, answer, err)
		}
	}
	if after := e.hub.Calls(route.Reports); after > before+1 {
		e.Errorf("it has reported %d times", after-before)
	}
	e.hub.Set(func(s *wire.Settings) { s.Halt = "" })
	e.converged()
	<-time.After(time.Second)
	same(`"k":"2"`)
}
