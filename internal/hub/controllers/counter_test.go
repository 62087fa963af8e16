package controllers

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSettle shows when a burst of changes counts as settled: after a settling time
// without one, and after maxSettle settling times at the latest.
func TestSettle(t *testing.T) {
	const settling = time.Second
	for _, c := range []struct {
		name  string
		every time.Duration // between changes; zero: there is none
		count int
		want  time.Duration
	}{
		{"quiet", 0, 0, settling},
		{"one more", settling / 2, 1, 2 * settling},
		{"a burst", settling / 100, 250, 4 * settling},
		{"seldom, without end", settling * 9 / 10, 1000, 5 * settling},
		{"without end", settling / 100, 1000, 5 * settling},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newCounter(counterConfig{Changed: NewSignal(), Settling: settling})
				go func() {
					for range c.count {
						select {
						case <-time.After(c.every):
							all.config.Changed.Raise()
						case <-t.Context().Done():
						}
					}
				}()
				began := time.Now()
				if err := all.awaitSettled(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("settled after %s, want %s", took, c.want)
				}
			})
		})
	}
}
