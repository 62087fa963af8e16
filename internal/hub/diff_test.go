package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/seeds"
)

// inspector is an agent that receives inspect requests for objects of its cluster.
type inspector struct {
	*testAgent
	stream   *protocol.Stream
	requests chan wire.InspectRequest
	done     chan struct{}
}

// inspector opens a session of an agent that supports inspect requests.
func (a *testAgent) inspector() *inspector {
	a.r.t.Helper()
	c := a.now()
	c.Capabilities = wire.Inspects
	s, err := c.Open(a.r.t.Context(), 0, "")
	if err != nil {
		a.r.t.Fatal(err)
	}
	l := &inspector{testAgent: a, stream: s, requests: make(chan wire.InspectRequest, 16), done: make(chan struct{})}
	greeted := make(chan struct{})
	go func() {
		defer close(l.done)
		greet := sync.OnceFunc(func() { close(greeted) })
		for {
			f, err := s.Next()
			if greet(); err != nil {
				return
			}
			if f.InspectRequest != nil {
				l.requests <- *f.InspectRequest
			}
		}
	}()
	a.r.t.Cleanup(func() { s.Close(); <-l.done })
	limit.Closed(a.r.t, greeted, "the first frame of the session")
	return l
}

// answer sends the answer to an inspect request, and returns the code of the response.
func (a *testAgent) answer(id string, body []byte) int {
	a.r.t.Helper()
	answer, err := a.now().Do(a.r.t.Context(), http.MethodPost, route.Inspected+"?id="+id, bytes.NewReader(body))
	if err == nil {
		_, _ = io.Copy(io.Discard, answer)
		_ = answer.Close()
		return http.StatusOK
	}
	var refused *protocol.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Code
	case a.r.t.Context().Err() == nil: // otherwise the test has ended
		a.r.t.Error(err)
	}
	return 0
}

// answers has all questions answered by f until the test ends.
func (l *inspector) answers(f func(wire.InspectRequest) any) {
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(l.r.t.Context())
	l.r.t.Cleanup(func() { cancel(); work.Wait() })
	work.Go(func() {
		for {
			select {
			case q := <-l.requests:
				body, err := json.Marshal(f(q))
				if err != nil {
					l.r.t.Error(err)
				}
				l.answer(q.ID, body)
			case <-ctx.Done():
				return
			}
		}
	})
}

const (
	mapOne    = "core/configmaps/default/one"
	secretOne = "core/secrets/default/one"
)

func configMapOne(value string) json.RawMessage {
	return json.RawMessage(`{"apiVersion":"v1","data":{"k":"` + value + `"},"kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}`)
}

// diff requests a difference as a user.
func (r *running) diff(who client, object, location string) (int, metav1.Status, queries.Diff) {
	r.t.Helper()
	code, body := who.send("GET /ask/v1/spaces/s/diff?object="+object+"&location="+location, "")
	var status metav1.Status
	var found queries.Diff
	var err error
	if code == http.StatusOK {
		err = json.Unmarshal([]byte(body), &found)
	} else {
		err = json.Unmarshal([]byte(body), &status)
	}
	if err != nil {
		r.t.Fatalf("%d %s: %v", code, body, err)
	}
	return code, status, found
}

// refuses asks for a difference and wants a reason instead.
func (r *running) refuses(who client, object, location string, code int, reason, message string) {
	r.t.Helper()
	got, status, found := r.diff(who, object, location)
	if got != code || string(status.Reason) != reason || !strings.Contains(status.Message, message) {
		r.t.Errorf("%s at %s: %d %s %q %+v, want %d %s that says %q", object, location, got, status.Reason, status.Message, found, code, reason, message)
	}
}

// diffed is a hub with a ConfigMap and a Secret at location a, and an operator.
func diffed(t *testing.T) (r *running, op client) {
	t.Helper()
	r = fixture(t)
	r.addSecret("one", map[string]string{"what": "app"})
	op = r.as("op", masters)
	r.eventually(func() string {
		if _, shown := r.statusRows(); strings.Count(shown, " a ") != 2 {
			return shown
		}
		return ""
	})
	return r, op
}

// TestDiffs checks which agent is asked for an object at a location, and the response if none can be.
func TestDiffs(t *testing.T) {
	t.Parallel()
	r, op := diffed(t)
	r.refuses(op, "core/configmaps/default/none", "a", http.StatusNotFound, "NotFound", "none")
	r.refuses(op, mapOne, "b", http.StatusNotFound, "NotPlaced", "not placed")
	r.refuses(op, mapOne, "nowhere", http.StatusNotFound, "NotPlaced", "not placed")
	r.refuses(op, mapOne, "a", http.StatusServiceUnavailable, "NotConnected", "not connected")

	a := r.join("a")
	old := a.open(0, "")
	if _, ok := old.next(); !ok {
		t.Fatal("no hello")
	}
	r.refuses(op, mapOne, "a", http.StatusNotImplemented, "AgentTooOld", "update it")
	old.close()
	r.eventually(func() string {
		if _, status, _ := r.diff(op, mapOne, "a"); status.Reason != "NotConnected" || !strings.Contains(status.Message, "since ") || !strings.Contains(status.Message, "(for ") {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})

	// A location that is paused answers, too.
	r.patchLocation("a", `{"spec":{"mapping":"Paused"}}`)
	desired := r.digestOf(a, "one")
	l := a.inspector()
	answer := wire.InspectResponse{Digest: desired, Live: configMapOne("2"), Desired: configMapOne("1"), Message: "a note"}
	l.answers(func(q wire.InspectRequest) any {
		if q.Key != "s/"+mapOne && q.Key != "s/"+secretOne || q.All {
			t.Errorf("asked %+v", q)
		}
		return answer
	})
	code, status, found := r.diff(op, mapOne, "a")
	if code != http.StatusOK || string(found.Live) != string(answer.Live) || string(found.Desired) != string(answer.Desired) || text(found.Remarks) != `["a note"]` {
		t.Errorf("%d %+v %+v", code, status, found)
	}
	answer.Digest, answer.Message = wire.Sum{1}, ""
	if _, _, found = r.diff(op, mapOne, "a"); len(found.Remarks) != 1 || !strings.Contains(found.Remarks[0], "has not received the last change") {
		t.Errorf("of an object that it has not received yet: %+v", found)
	}
	for reason, code := range map[string]int{
		"NotPlaced": http.StatusNotFound, "Exists": http.StatusConflict, "OtherSpace": http.StatusConflict, "TooLarge": http.StatusUnprocessableEntity,
		"Forbidden": http.StatusBadGateway,
	} {
		answer = wire.InspectResponse{Reason: reason, Message: "as the agent says", Live: configMapOne("not told")}
		r.refuses(op, mapOne, "a", code, reason, "as the agent says")
	}
	// The held object is compared with the last one that the location received. The response also contains the
	// fields that the location keeps of an object that is no longer placed there.
	answer = wire.InspectResponse{Live: configMapOne("2"), Desired: configMapOne("1")}
	r.patchObject("s", placementsGVR, "p", `{"spec":{"suspend":true}}`)
	r.eventually(func() string {
		if code, _, found := r.diff(op, mapOne, "a"); code != http.StatusOK || len(found.Remarks) != 1 || !strings.Contains(found.Remarks[0], "Suspended") {
			return fmt.Sprintf("%d %+v", code, found)
		}
		return ""
	})
	row := r.row("o/s/" + mapOne)
	a.reports(wire.ReportLine{Key: "s/" + mapOne, Report: &wire.Report{UID: row.Meta.UID, State: wire.Applied}})
	if code, body := op.send("DELETE /spaces/s/apis/orrery.dev/v1alpha1/placements/p", ""); code != http.StatusOK {
		t.Fatalf("delete the placement: %d %s", code, body)
	}
	answer = wire.InspectResponse{Live: configMapOne("2")}
	r.eventually(func() string {
		if code, _, found := r.diff(op, mapOne, "a"); code != http.StatusOK || found.Live == nil || len(found.Remarks) != 1 || !strings.Contains(found.Remarks[0], "no longer assigned") {
			return fmt.Sprintf("%d %+v", code, found)
		}
		return ""
	})
}

// patchLocation merges something into a location.
func (r *running) patchLocation(name, patch string) {
	r.t.Helper()
	r.patchObject(key.Root, locationsGVR, name, patch)
}

// patchObject merges something into an object that is in no namespace.
func (r *running) patchObject(s key.Space, gvr schema.GroupVersionResource, name, patch string) {
	r.t.Helper()
	if _, err := r.space(s).Resource(gvr).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// digestOf is the digest of an object that the location of an agent gets.
func (r *running) digestOf(a *testAgent, name string) wire.Sum {
	r.t.Helper()
	frames := a.fetch(wire.Fetch{Key: "s/core/configmaps/default/" + name})
	if len(frames) == 0 || frames[0].Put == nil {
		r.t.Fatalf("%s is sent as %+v", name, frames)
	}
	return frames[0].Put.Digest
}

// TestDiffsTakeARight checks that a user needs a right for the diff of an object at a location, besides the
// right to the object, and gets no diff after it is revoked.
func TestDiffsTakeARight(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.addSecret("one", map[string]string{"what": "app"})
	const live = `{"apiGroups":["orrery.dev"],"resources":["locations/live"],"resourceNames":["a"],"verbs":["get"]}`
	for name, what := range seeds.Ordered(map[string]string{
		"view": `"roles":[{"name":"view"}]`, "edit": `"roles":[{"name":"edit"}]`, "admin": `"roles":[{"name":"admin"}]`,
		"get":     `"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["get"]}]`,
		"live":    `"rules":[` + live + `]`,
		"both":    `"rules":[{"apiGroups":[""],"resources":["configmaps","secrets"],"verbs":["get"]},` + live + `]`,
		"secrets": `"rules":[{"apiGroups":[""],"resources":["secrets"],"resourceNames":["one"],"verbs":["get"]},` + live + `,{"apiGroups":["orrery.dev"],"resources":["locations/livesecrets"],"verbs":["get"]}]`,
		"other":   `"rules":[{"apiGroups":["","orrery.dev"],"resources":["*"],"resourceNames":["one","b"],"verbs":["*"]}]`,
	}) {
		r.grant("s", name, `{"subjects":[{"kind":"User","name":"`+name+`"}],`+what+`}`)
	}
	r.eventually(func() string {
		if _, shown := r.statusRows(); strings.Count(shown, " a ") != 2 {
			return shown
		}
		return ""
	})
	l := r.join("a").inspector()
	during := func() {}
	l.answers(func(q wire.InspectRequest) any {
		during()
		if strings.Contains(q.Key, "secrets") {
			side := json.RawMessage(`{"apiVersion":"v1","data":{"password":"***"},"kind":"Secret","metadata":{"name":"one","namespace":"default"}}`)
			return wire.InspectResponse{Live: side, Desired: side}
		}
		return wire.InspectResponse{Live: configMapOne("2"), Desired: configMapOne("1")}
	})
	for who, may := range map[string][2]bool{ // the ConfigMap, the Secret
		"view": {}, "edit": {true, false}, "admin": {true, true}, "get": {}, "live": {}, "both": {true, false}, "secrets": {false, true}, "other": {}, "nobody": {},
	} {
		for i, object := range []string{mapOne, secretOne} {
			want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[may[i]]
			if code, status, _ := r.diff(r.as(who), object, "a"); code != want {
				t.Errorf("%s of %s: %d %s, want %d", who, object, code, status.Message, want)
			}
		}
	}
	// A missing object and a missing right have the same message.
	r.refuses(r.as("view"), "core/secrets/default/none", "a", http.StatusForbidden, "Forbidden", "it takes the right to get it")
	r.refuses(r.as("get"), "core/configmaps/default/none", "a", http.StatusForbidden, "Forbidden", "it takes the right to get that")
	during = sync.OnceFunc(func() { r.revoke("s", "both") })
	r.refuses(r.as("both"), mapOne, "a", http.StatusForbidden, "Forbidden", "")
}

// TestHostileAnswers checks that the hub accepts only answers to its requests, only from the asked agent,
// and masks all values of a Secret itself.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	r, op := diffed(t)
	hostile, other := r.join("a"), r.join("b")
	l := hostile.inspector()
	var body []byte
	var before func(wire.InspectRequest)
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		for {
			select {
			case q := <-l.requests:
				if before != nil {
					before(q)
				}
				hostile.answer(q.ID, body)
			case <-ctx.Done():
				return
			}
		}
	})
	encode := func(live string) []byte { return []byte(`{"live":` + live + `}`) }
	for what, c := range map[string]struct {
		object string
		body   []byte
	}{
		"no JSON":           {mapOne, []byte("<html>")},
		"nothing":           {mapOne, []byte{}},
		"too much":          {mapOne, []byte(`{"message":"` + strings.Repeat("x", wire.MaxInspectResponse) + `"}`)},
		"no object":         {mapOne, encode(`"text"`)},
		"deep":              {mapOne, encode(strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000))},
		"another's name":    {mapOne, encode(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two","namespace":"default"}}`)},
		"another namespace": {mapOne, encode(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"kube-system"}}`)},
		"another group":     {mapOne, encode(`{"apiVersion":"apps/v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"default"}}`)},
		"no kind":           {mapOne, encode(`{"apiVersion":"v1","metadata":{"name":"one","namespace":"default"}}`)},
		"a Secret's value":  {secretOne, encode(`{"apiVersion":"v1","data":{"k":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"one","namespace":"default"}}`)},
		"a Secret's text":   {secretOne, encode(`{"apiVersion":"v1","stringData":{"k":"hunter2"},"kind":"Secret","metadata":{"name":"one","namespace":"default"}}`)},
		"a Secret's list":   {secretOne, encode(`{"apiVersion":"v1","data":["hunter2"],"kind":"Secret","metadata":{"name":"one","namespace":"default"}}`)},
	} {
		body = c.body
		code, status, found := r.diff(op, c.object, "a")
		if code != http.StatusBadGateway || status.Reason != "BadAnswer" || len(status.Message) > 1000 || strings.Contains(status.Message, "hunter2") {
			t.Errorf("%s: %d %.1000q %+v", what, code, status.Message, found)
		}
	}
	// Answers without a request, and answers of another agent, are refused without being read.
	if code := hostile.answer("made-up", bytes.Repeat([]byte("x"), 4<<20)); code != http.StatusNotFound {
		t.Errorf("an answer to no question: %d", code)
	}
	body = encode(string(configMapOne("its own")))
	before = func(q wire.InspectRequest) {
		if code := other.answer(q.ID, encode(string(configMapOne("another's")))); code != http.StatusNotFound {
			t.Errorf("another location's answer: %d", code)
		}
		if code := other.answer(strings.ToUpper(q.ID), nil); code != http.StatusNotFound {
			t.Errorf("another location's answer: %d", code)
		}
	}
	if code, _, found := r.diff(op, mapOne, "a"); code != http.StatusOK || !strings.Contains(string(found.Live), "its own") {
		t.Errorf("%d %+v", code, found)
	}
	// An agent that never answers does not delay requests to other agents, or writes. Clients that wait for it
	// are notified at once when its session ends.
	gone := make(chan struct{})
	before = func(wire.InspectRequest) { <-gone }
	defer close(gone)
	var waits sync.WaitGroup
	for range 12 {
		waits.Go(func() {
			if code, status, _ := r.diff(op, mapOne, "a"); code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests {
				t.Errorf("of an agent that never answers: %d %s", code, status.Message)
			}
		})
	}
	r.addPlacement("s", "q", "y", "app", nil)
	r.patchLocation("b", `{"metadata":{"labels":{"where":"y"}}}`)
	r.eventually(func() string {
		if _, shown := r.statusRows(); !strings.Contains(shown, " b ") {
			return shown
		}
		return ""
	})
	other.inspector().answers(func(wire.InspectRequest) any { return wire.InspectResponse{Live: configMapOne("b's")} })
	if code, _, found := r.diff(op, mapOne, "b"); code != http.StatusOK || !strings.Contains(string(found.Live), "b's") {
		t.Errorf("another location meanwhile: %d %+v", code, found)
	}
	began := time.Now()
	l.stream.Close()
	waits.Wait()
	t.Logf("all have heard after %s", time.Since(began))
}
