package worklist

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestWithheld shows that items have turns while the worklist is Observing, that such a turn knows
// why it must not change anything, and that what it withheld has a turn at once when the worklist
// opens.
func TestWithheld(t *testing.T) {
	for name, opensMeanwhile := range map[string]bool{"opened after the turn": false, "opened during the turn": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New()
				defer e.Stop()
				o := key.Object{Space: "s", Identity: parseIdentity("core/configmaps/n/a")}
				e.SetMode(Observing, "paused")
				e.Touch([]store.Touched{{Object: o, Want: putWant()}})
				start := time.Now()
				it, ok := e.Next(t.Context())
				if !ok || e.View(it).Halt != "paused" {
					t.Fatalf("got %v, %+v", it, e.View(it))
				}
				if opensMeanwhile {
					e.SetMode(Open, "")
				}
				e.Finish(it, Result{Wanted: true, Withheld: true})
				if !opensMeanwhile {
					e.SetMode(Closed, "no answer")
					e.SetMode(Observing, "paused")
					e.SetMode(Open, "")
				}
				it, ok = e.Next(t.Context())
				if !ok || e.View(it).Halt != "" || time.Since(start) > 0 {
					t.Fatalf("got %v after %s", it, time.Since(start))
				}
				e.Finish(it, Result{Wanted: true})
				e.SetMode(Observing, "paused")
				e.SetMode(Open, "")
				if n := e.Ready(); n > 0 {
					t.Errorf("%d items have another turn, and nothing of theirs was withheld", n)
				}
			})
		})
	}
}
