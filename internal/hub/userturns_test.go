package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestTurnsOfUsers: a user of two spaces that never ends the bodies of requests, and opens all
// watches that the hub allows, holds up neither other users nor operators.
func TestTurnsOfUsers(t *testing.T) {
	t.Parallel()
	const writes, watches = 8, 32
	r := start(t, t.TempDir(), func(c *hub.Config) { c.MaxWrites, c.MaxWatches, c.QueueTimeout = writes, watches, 0 })
	for s, user := range map[key.Space]string{"a": "jane", "b": "jane", "c": "joe", "d": "jim"} {
		r.addSpace(s)
		r.grant(s, user, `{"subjects":[{"kind":"User","name":"`+user+`"}],"roles":[{"name":"edit"}]}`)
	}
	jane, joe, jim, operator := r.as("jane"), r.as("joe"), r.as("jim"), r.as("op", masters)

	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{}, 4*writes)
	var unfinished sync.WaitGroup
	defer func() { cancel(); unfinished.Wait() }()
	for _, s := range []string{"a", "b"} {
		for range 2 * writes {
			unfinished.Go(func() { jane.neverEnds(ctx, "/spaces/"+s+"/api/v1/namespaces/default/configmaps", begun) })
		}
	}
	for range writes { // the hub reads as many as there are turns
		limit.Receive(t, begun, "the hub reads a body")
	}
	made := func(c client, s string) {
		t.Helper()
		if code, body := c.send("POST /spaces/"+s+"/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"x"}}`); code != http.StatusCreated {
			t.Errorf("beside bodies that never end: %d %s", code, body)
		}
	}
	made(joe, "c")
	made(operator, "a")
	made(jane, "a")

	watch := func(c client, s string) (refused string) {
		t.Helper()
		c.Timeout = 0
		resp := c.open(ctx, "GET /spaces/"+s+"/api/v1/configmaps?watch=1", "")
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode == http.StatusOK {
			return ""
		}
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s", resp.StatusCode, body)
	}
	fills := func(c client, spaces ...string) (count int) {
		t.Helper()
		for _, s := range spaces {
			for {
				if refused := watch(c, s); refused != "" {
					if !strings.HasPrefix(refused, "429") || !strings.Contains(refused, "close some") {
						t.Errorf("a watch too many: %s", refused)
					}
					break
				}
				count++
			}
		}
		return count
	}
	if count := fills(jane, "a", "b"); count < watches/2 || count > watches*3/4 {
		t.Errorf("a user of two spaces has %d of %d watches", count, watches)
	}
	for c, s := range map[client]string{joe: "c", jim: "d"} {
		if count := fills(c, s); count == 0 {
			t.Error("another user has no watch")
		}
	}
	if refused := watch(operator, "a"); refused != "" {
		t.Errorf("a watch of an operator: %s", refused)
	}
}

// neverEnds sends a request whose body does not end before the context does. begun gets one when
// the hub begins to read that.
func (c client) neverEnds(ctx context.Context, path string, begun chan<- struct{}) {
	from, to := io.Pipe()
	defer func() { _ = to.Close() }()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { begun <- struct{}{} }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.r.URL+path, from)
	if err != nil {
		c.r.t.Error(err)
		return
	}
	req.Header.Set(contentType, "application/json")
	req.Header.Set("Expect", "100-continue")
	if resp, err := c.Transport.RoundTrip(req); err == nil { // refused for its time, or for want of a turn
		_ = resp.Body.Close()
	}
}
