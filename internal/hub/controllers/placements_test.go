package controllers

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSettle shows when a burst of changes counts as settled: after a settling time
// without one, and after maxSettle settling times at the latest.
func TestSettle(t *testing.T) {
	const settle = time.Second
	for _, c := range []struct {
		name  string
		every time.Duration // between changes; zero: there is none
		count int
		want  time.Duration
	}{
		{"quiet", 0, 0, settle},
		{"one more", settle / 2, 1, 2 * settle},
		{"a burst", settle / 100, 250, 4 * settle},
		{"seldom, without end", settle * 9 / 10, 1000, 5 * settle},
		{"without end", settle / 100, 1000, 5 * settle},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &Controllers{config: Config{Changed: NewSignal(), Settle: settle}}
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
				if err := all.settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("settled after %s, want %s", took, c.want)
				}
			})
		})
	}
}
