package watchdog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestCheck logs the subject of slow work once, and fails only if no step is made.
func TestCheck(t *testing.T) {
	var logged bytes.Buffer
	d, now := New(slog.New(slog.NewTextHandler(&logged, nil)), "count", "sum"), time.Unix(0, 0)
	w := d.Work("count")
	check := func(after time.Duration, wantLines int, wantErr string) {
		t.Helper()
		now = now.Add(after)
		err := d.Check(now)
		if lines := strings.Count(logged.String(), "\n"); lines != wantLines {
			t.Errorf("%d lines are logged, want %d: %s", lines, wantLines, &logged)
		}
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("the error is %v, want %q", err, wantErr)
		}
	}
	check(0, 0, "")
	w.Begin("o/s/core/configmaps/n/a")
	check(time.Hour, 0, "") // it is seen for the first time
	check(time.Second/2, 0, "")
	check(time.Second, 1, "")
	if !strings.Contains(logged.String(), "o/s/core/configmaps/n/a") || !strings.Contains(logged.String(), "work=count") {
		t.Errorf("logged: %s", &logged)
	}
	for range 10 { // it is slow, and goes on
		w.Step()
		check(stoppedAfter, 1, "")
	}
	check(10*stoppedAfter, 1, "") // the process was frozen
	for range stoppedAfter/time.Second - 1 {
		check(time.Second, 1, "")
	}
	check(time.Second, 1, "count has stopped")
	if err := d.Check(now); strings.Contains(err.Error(), "configmaps") {
		t.Errorf("the error names the object: %v", err)
	}
	w.Begin("b")
	check(0, 1, "")
	w.End()
	check(time.Hour, 1, "")
	if d.Work("none") != nil {
		t.Error("there is a work that was not made")
	}
	var none *Work
	none.Begin("x")
	none.Step()
	none.End()
}
