package hub_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestSessionsWithoutPause: an agent that starts one session after another, or repeatedly connects with a
// protocol version that the hub does not support, is asked to wait. It causes at most one write a second.
// Other agents keep their sessions, and later this agent gets one, too.
func TestSessionsWithoutPause(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	begun := time.Now() // the clock of the rates only moves with ahead: what they allow does not depend on how long requests take
	r := start(t, t.TempDir(), func(c *hub.Config) { c.Now = func() time.Time { return begun.Add(time.Duration(ahead.Load())) } })
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, nil)
	}
	a, b := r.join("a"), r.join("b")
	a.tell(wire.AgentStatus{Version: "v1"})
	refused := func(err error, code int) *protocol.RefusedError {
		t.Helper()
		refusal, ok := errors.AsType[*protocol.RefusedError](err)
		if !ok || refusal.Code != code {
			t.Fatalf("want %d: %v", code, err)
		}
		return refusal
	}
	var last error
	for range 1000 {
		var s *protocol.Stream
		if s, last = a.now().Open(t.Context(), 0, ""); last != nil {
			break
		}
		s.Close()
	}
	if after := refused(last, http.StatusTooManyRequests).Header.Get("Retry-After"); after == "" {
		t.Error("the response has no time of the next attempt")
	}
	b.open(0, "").next()

	writes := func() (version int64) {
		if err := tries(func() error {
			got, err := r.Log.Client().Client.Get(t.Context(), etcd.Prefix+key.WholeOf("a").StatusKey())
			if err == nil && len(got.Kvs) != 1 {
				t.Fatalf("there are %d rows of the status of an agent", len(got.Kvs))
			}
			if err == nil {
				version = got.Kvs[0].Version
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return version
	}
	r.eventually(func() string { // the previous status is written
		if stored := presence.AgentStatusOf(r.Table.Snapshot(), key.WholeOf("a"), string(r.location("a").UID)); stored == nil || stored.Status == nil {
			return "nothing is said"
		}
		return ""
	})
	before := writes()
	const allowed = 3 // one for each second
	ahead.Add(int64(allowed * time.Second))
	for i := range 50 { // each would be a write
		req, err := a.now().New(t.Context(), http.MethodGet, route.Desired, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(wire.Header, fmt.Sprint("other", i))
		resp, err := a.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Fatal(resp.Status, err)
		}
	}
	b.tell(wire.AgentStatus{Version: "v2"}) // which is written after all that was said before
	r.eventually(func() string {
		if stored := presence.AgentStatusOf(r.Table.Snapshot(), key.WholeOf("b"), string(r.location("b").UID)); stored == nil || stored.Status == nil {
			return "nothing is said"
		}
		return ""
	})
	if n := writes() - before; n < 1 || n > allowed {
		t.Errorf("the status of an agent was written %d times in %d seconds, want 1 to %d", n, allowed, allowed)
	}
	r.eventually(func() string {
		ahead.Add(int64(time.Second))
		s, err := a.now().Open(t.Context(), 0, "")
		if err != nil {
			return err.Error()
		}
		s.Close()
		return ""
	})
}
