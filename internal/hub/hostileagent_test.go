package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// endless is a body without an end, which counts what is taken of it.
type endless struct {
	line  []byte
	rest  []byte
	taken *atomic.Int64
}

func (e *endless) Read(b []byte) (n int, _ error) {
	for n < len(b) {
		if len(e.rest) == 0 {
			e.rest = e.line
		}
		copied := copy(b[n:], e.rest)
		n, e.rest = n+copied, e.rest[copied:]
	}
	e.taken.Add(int64(n))
	return n, nil
}

// TestHostileAgent: an agent with a valid credential that sends endless or stalled bodies to all calls at
// once is refused, and other clients are still served.
func TestHostileAgent(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir(), func(c *hub.Config) { c.MaxWrites = 8 })
	r.addLocation("a", nil)
	r.addLocation("b", nil)
	hostile, other := r.join("a"), r.join("b")
	own := wire.ReportLine{Key: "s/core/configmaps/default/x", Report: &wire.Report{UID: "u", State: wire.Applied, Since: "2026-01-01T00:00:00Z"}}
	line, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer running.Wait()
	defer cancel()
	calls := []string{route.Reports, route.ReportsWalk, route.ReportsFetch, route.Walk, route.Fetch, route.AgentStatus, route.LogIdentity, route.Namespaces}
	const each = 8
	for _, call := range calls { // never goes on
		for range each {
			body, hold := io.Pipe()
			running.Go(func() {
				<-ctx.Done()
				_ = hold.Close()
			})
			running.Go(func() {
				if answer, err := hostile.now().Do(ctx, http.MethodPost, call, body); err == nil {
					_, _ = io.Copy(io.Discard, answer)
					_ = answer.Close()
				}
			})
			if _, err := hold.Write([]byte("{")); err != nil && !errors.Is(err, io.ErrClosedPipe) { // or it was refused at once
				t.Fatal(err)
			}
		}
	}
	served := func(what string, after key.Location) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		began := time.Now()
		if _, err := other.now().Report(ctx, own); err != nil {
			t.Errorf("%s: another agent's report: %v", what, err)
		}
		if _, err := other.now().Tell(ctx, wire.AgentStatus{Version: "v1"}); err != nil {
			t.Errorf("%s: another agent's status: %v", what, err)
		}
		r.addLocation(after, nil)
		t.Logf("%s: served after %s", what, time.Since(began))
	}
	served("bodies that wait", "c")
	for _, body := range [][]byte{[]byte("["), []byte(`{"x":"` + "yyyyyyyyyyyyyyyy"), append(line, '\n'), []byte("{}\n"), bytes.Repeat([]byte{0}, 64)} {
		for _, call := range calls {
			var taken atomic.Int64
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			answer, err := hostile.now().Do(ctx, http.MethodPost, call, &endless{line: body, taken: &taken})
			if err == nil {
				_, err = io.Copy(io.Discard, answer)
				_ = answer.Close()
			}
			if ctx.Err() != nil {
				t.Errorf("%s of %.8q… was not ended: %v", call, body, err)
			}
			cancel()
			if most := int64(24 << 20); taken.Load() > most {
				t.Errorf("%s of %.8q… took %d bytes", call, body, taken.Load())
			}
		}
	}
	served("bodies without an end", "d")
}
