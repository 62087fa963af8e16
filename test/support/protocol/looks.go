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

// Look asks the location's agent what is at its target in the place of an object. It waits
// for the answer until the context ends.
func (h *Hub) Look(ctx context.Context, k string, all bool) (answer wire.Looked, err error) {
	told := make(chan []byte, 1)
	h.do(func() {
		h.questions++
		q := wire.Look{ID: fmt.Sprintf("look-%d", h.questions), Key: k, All: all}
		h.looks = append(h.looks, q)
		h.waits[q.ID] = told
	})
	select {
	case body := <-told:
		return answer, json.Unmarshal(body, &answer)
	case <-ctx.Done():
		return answer, fmt.Errorf("ask about %q: %w", k, ctx.Err())
	}
}

// serveLooked takes an answer that the hub has asked for.
func (h *Hub) serveLooked(r *http.Request, body []byte) answer {
	id := r.URL.Query().Get("id")
	told := h.waits[id]
	if told == nil {
		h.rules.wrong("an answer to %q, which was not asked", id)
		return refused(http.StatusNotFound, "%s", r.URL.Path)
	}
	if len(body) > wire.MaxLooked {
		h.rules.wrong("an answer of %d bytes", len(body))
	}
	delete(h.waits, id)
	told <- body
	return answer{lines: []any{struct{}{}}}
}

// agentReportsFirst: what an agent is to report before it makes it is not there before the
// hub has taken the report, however long it takes, and is there then.
func agentReportsFirst(e *trial) {
	e.agent.Start()
	defer e.agent.Stop()
	e.put("other", "1")
	e.settled()
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if answer, err := e.hub.Look(ctx, KeyOf("one"), false); err != nil || answer.Live != nil {
		e.Errorf("what it was to report first is there: %s %+v %v", answer.Live, answer, err)
	}
	e.hub.Instead(nil)
	e.settled()
}

// agentLooks: an agent tells what is at its target of what is its own, and of nothing else,
// also while it is halted. That changes nothing.
func agentLooks(e *trial) {
	e.put("one", "1")
	e.agent.Start()
	defer e.agent.Stop()
	e.settled()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	look := func(name string) wire.Looked {
		e.Helper()
		answer, err := e.hub.Look(ctx, KeyOf(name), false)
		if err != nil {
			e.Fatal(err)
		}
		return answer
	}
	same := func(value string) {
		e.Helper()
		answer := look("one")
		if answer.Reason != "" || string(answer.Live) != string(answer.Desired) || !strings.Contains(string(answer.Live), value) {
			e.Errorf("of what is there as desired it tells %s %+v", answer.Live, answer)
		}
	}
	same(`"k":"1"`)
	e.hub.Set(func(s *wire.Settings) { s.Halt = "the location's mapping is Paused" })
	before := e.hub.Asked(route.Reports)
	e.put("one", "2")
	e.within(func() string {
		answer := look("one")
		if !strings.Contains(string(answer.Live), `"k":"1"`) || !strings.Contains(string(answer.Desired), `"k":"2"`) {
			return fmt.Sprintf("halted, it tells %s and %s: %s", answer.Live, answer.Desired, answer.Message)
		}
		return ""
	})
	for _, k := range []string{KeyOf("two"), "other/core/configmaps/default/one", "team/core/secrets/kube-system/x", "nonsense", "", strings.Repeat("/", 4)} {
		answer, err := e.hub.Look(ctx, k, true)
		if err != nil || answer.Reason == "" || answer.Live != nil || answer.Desired != nil {
			e.Errorf("of %q it tells %+v: %v", k, answer, err)
		}
	}
	if after := e.hub.Asked(route.Reports); after > before+1 {
		e.Errorf("it has reported %d times", after-before)
	}
	e.hub.Set(func(s *wire.Settings) { s.Halt = "" })
	e.settled()
	<-time.After(time.Second)
	same(`"k":"2"`)
}
