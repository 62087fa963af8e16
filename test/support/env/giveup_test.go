package env

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGivesUp checks that a client which ends too early gets more time, and that the last timeout fails the test.
func TestGivesUp(t *testing.T) {
	var timeouts []time.Duration
	GivesUp(t, time.Second, func(timeout time.Duration) string {
		if timeouts = append(timeouts, timeout); timeout < 4*time.Second {
			return "it waits, and the connection was refused"
		}
		return "it waits, and timed out"
	}, "it waits", "timed out")
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}; !slices.Equal(timeouts, want) {
		t.Errorf("the timeouts are %v, want %v", timeouts, want)
	}
	err := Main("demo", func(t T) {
		GivesUp(t, time.Second, func(time.Duration) string { return "refused" }, "timed out")
	})
	if err == nil || !strings.Contains(err.Error(), `did not print "timed out", but`) {
		t.Errorf("without its text, the test ends with: %v", err)
	}
}
