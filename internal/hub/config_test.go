package hub

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/lib/fairqueue"
)

// TestDefaultTimeouts shows which timeouts a Config without any has, and that one with timeouts has
// its own.
func TestDefaultTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config      Config
		ping, queue time.Duration
	}{
		{Config{Heartbeat: 10 * time.Second}, 10 * time.Second, 15 * time.Second},
		{Config{Heartbeat: time.Second}, 2 * time.Second, 15 * time.Second},
		{Config{Heartbeat: time.Minute}, 15 * time.Second, 15 * time.Second},
		{Config{Heartbeat: time.Minute, PingTimeout: time.Hour, QueueTimeout: time.Minute}, time.Hour, time.Minute},
	} {
		if got := c.config.pingTimeout(); got != c.ping {
			t.Errorf("%+v: a ping may take %s, want %s", c.config, got, c.ping)
		}
		synctest.Test(t, func(t *testing.T) {
			queue := c.config.newQueue(1)
			leave, err := queue.Enter(t.Context(), fairqueue.Flow{Name: "first"})
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			began := time.Now()
			if _, err := queue.Enter(t.Context(), fairqueue.Flow{Name: "second"}); err == nil {
				t.Error("two requests have the one turn")
			}
			if waited := time.Since(began); waited != c.queue {
				t.Errorf("%+v: a request waited %s for its turn, want %s", c.config, waited, c.queue)
			}
		})
	}
}
