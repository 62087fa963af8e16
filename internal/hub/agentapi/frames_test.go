package agentapi

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestReadTimer checks that the timer calls its function once after a timeout, but not for an operation
// in time, while it is paused, or after its end.
func TestReadTimer(t *testing.T) {
	const limit = time.Minute
	for name, c := range map[string]struct {
		does func(*readTimer)
		want int
	}{
		"never begun":         {func(*readTimer) {}, 0},
		"too long":            {func(w *readTimer) { w.begin() }, 1},
		"in time":             {func(w *readTimer) { w.begin(); <-time.After(limit - 1); w.pause() }, 0},
		"each in time":        {func(w *readTimer) { w.begin(); <-time.After(limit - 1); w.begin(); <-time.After(limit - 1); w.pause() }, 0},
		"the second too long": {func(w *readTimer) { w.begin(); w.pause(); <-time.After(2 * limit); w.begin() }, 1},
		"ended":               {func(w *readTimer) { w.begin(); w.end() }, 0},
		"ended as it fires":   {func(w *readTimer) { w.begin(); w.end(); w.check() }, 0},
		"fires too late":      {func(w *readTimer) { w.begin(); w.pause(); w.check() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fired := 0
				w := newReadTimer(limit, func() { fired++ })
				c.does(w)
				<-time.After(3 * limit)
				synctest.Wait()
				if w.end(); fired != c.want {
					t.Errorf("%d, want %d", fired, c.want)
				}
			})
		})
	}
}
