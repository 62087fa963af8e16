package agentapi

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/lib/fairqueue"
)

// TestDefaultTimeouts shows how long requests of agents wait for their turns if a Config has no
// timeouts, and that one with a timeout has its own.
func TestDefaultTimeouts(t *testing.T) {
	t.Parallel()
	for _, own := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server := New(Config{Requests: 1, QueueTimeout: own})
			for _, c := range []struct {
				name  string
				queue *fairqueue.Queue
				want  time.Duration
			}{
				{"requests", server.requests.Queue, 15 * time.Second},
				{"walks", server.comparisons.queue, time.Minute},
				{"reports of what was not placed", server.reports.queue, time.Minute},
				{"inspect requests", server.inspector.pending.queue, 10 * time.Second},
			} {
				began := time.Now()
				for {
					leave, err := c.queue.Enter(t.Context(), fairqueue.Flow{Name: "one"})
					if err != nil {
						break
					}
					defer leave()
				}
				want := c.want
				if own != 0 {
					want = own
				}
				if waited := time.Since(began); waited != want {
					t.Errorf("timeout %s: %s wait %s for their turn, want %s", own, c.name, waited, want)
				}
			}
			if err := server.limits.requests.Begin("one"); err != nil {
				t.Errorf("a server without a clock refuses the first request: %v", err)
			}
		})
	}
}
