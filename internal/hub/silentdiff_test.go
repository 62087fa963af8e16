package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// TestSilentAgents: a user that has sixteen agents inspected, which never answer, holds up no other
// user's inspect requests.
func TestSilentAgents(t *testing.T) {
	t.Parallel()
	const silent = 16
	r := start(t, t.TempDir(), func(c *hub.Config) { c.QueueTimeout, c.InspectTimeout = 0, limit.Never })
	r.addSpace("s")
	for _, user := range []string{"jane", "joe"} {
		r.grant("s", user, `{"subjects":[{"kind":"User","name":"`+user+`"}],"roles":[{"name":"admin"}]}`)
	}
	locations := []key.Location{"answers"}
	for i := range silent {
		locations = append(locations, key.Location(fmt.Sprint("silent-", i)))
	}
	requests := make(chan struct{}, 2*silent)
	for _, l := range locations {
		r.addLocation(l, map[string]string{"where": "x"})
		agent := r.join(l).inspector()
		if l == "answers" {
			agent.answers(func(wire.InspectRequest) any {
				return wire.InspectResponse{Live: configMapOne("2"), Desired: configMapOne("1")}
			})
			continue
		}
		var forwarded sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(func() { cancel(); forwarded.Wait() })
		forwarded.Go(func() {
			for {
				select {
				case <-agent.requests:
					requests <- struct{}{}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	joe := r.as("joe")
	r.eventually(func() string {
		if code, status, _ := r.diff(joe, mapOne, "answers"); code != http.StatusOK {
			return fmt.Sprint(code, status.Message)
		}
		return ""
	})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer func() { cancel(); waiting.Wait() }()
	jane := r.as("jane")
	for _, l := range locations[1:] {
		for range 2 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/ask/v1/spaces/s/diff?object="+mapOne+"&location="+string(l), nil)
			if err != nil {
				t.Fatal(err)
			}
			waiting.Go(func() {
				if resp, err := jane.Transport.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
			})
		}
	}
	for range silent {
		limit.Receive(t, requests, "agents are asked")
	}
	for range 3 {
		if code, status, _ := r.diff(joe, mapOne, "answers"); code != http.StatusOK {
			t.Errorf("beside agents that do not answer: %d %s", code, status.Message)
		}
	}
}
