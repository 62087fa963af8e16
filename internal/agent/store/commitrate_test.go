package store

import (
	"testing"
	"time"
)

// TestCommitRate: the commits of one change go at once. Commits that go on coming take turns of
// commitInterval, and a large one is followed by busyInterval.
func TestCommitRate(t *testing.T) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var r commitRate
	now := start
	wait := func() time.Duration { return max(0, r.next().Sub(now)) }
	for n := range commitBurst {
		if got := wait(); got > 0 {
			t.Errorf("commit %d waits %v", n, got)
		}
		r.ended(now, 1)
	}
	for n := range 100 {
		if got := wait(); got != commitInterval {
			t.Fatalf("commit %d waits %v, want %v", commitBurst+n, got, commitInterval)
		}
		now = now.Add(wait())
		r.ended(now, 1)
	}
	for range 100 { // urgent ones
		r.ended(now, 1)
	}
	if got := wait(); got != commitInterval {
		t.Errorf("a commit after urgent ones waits %v, want %v", got, commitInterval)
	}
	r.ended(now, manyWrites)
	if got := wait(); got != busyInterval {
		t.Errorf("a commit after a large one waits %v, want %v", got, busyInterval)
	}
	now = now.Add(time.Second)
	for n := range commitBurst {
		if got := wait(); got > 0 {
			t.Errorf("commit %d after a second of rest waits %v", n, got)
		}
		r.ended(now, 1)
	}
}
