package hub_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestSessionsWithoutPause: an agent that begins session after session, or comes again and
// again with a version that the hub does not speak, is told when to come again and makes the
// log no longer than one write a second; others have their sessions, and later so does it.
func TestSessionsWithoutPause(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
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
		t.Error("it is not said when to come again")
	}
	b.open(0, "").next()

	began := time.Now()
	writes := func() int64 {
		got, err := r.Log.Client().Client.Get(t.Context(), etcd.Prefix+key.WholeOf("a").Said())
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(got, err)
		}
		return got.Kvs[0].Version
	}
	r.eventually(func() string { // what was said before is written
		if said := presence.SaidBy(r.Table.Snapshot(), key.WholeOf("a"), string(r.location("a").UID)); said == nil || said.Status == nil {
			return "nothing is said"
		}
		return ""
	})
	before := writes()
	for i := range 500 {
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
		if said := presence.SaidBy(r.Table.Snapshot(), key.WholeOf("b"), string(r.location("b").UID)); said == nil || said.Status == nil {
			return "nothing is said"
		}
		return ""
	})
	if n, most := writes()-before, int64(time.Since(began).Seconds())+2; n > most {
		t.Errorf("what is said of an agent was written %d times, want at most %d", n, most)
	}
	r.eventually(func() string {
		s, err := a.now().Open(t.Context(), 0, "")
		if err != nil {
			return err.Error()
		}
		s.Close()
		return ""
	})
}
