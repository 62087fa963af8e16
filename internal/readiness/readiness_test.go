package readiness

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"orrery.dev/orrery/internal/store"
)

// TestHeard: requests that an embedded log lets go on, without asking it, don't make a hub ready whose
// log does not answer.
func TestHeard(t *testing.T) {
	l, err := store.Open(t.Context(), store.Config{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	g := New(Config{Log: l, Now: time.Now, Silent: func() bool { return false }})
	g.phase.ready = true
	tail := g.Hooks().Asked
	tail(errors.New("the log does not answer"))
	if g.heard(t.Context(), nil, 0); g.Ready() {
		t.Error("ready, though the log does not answer")
	}
	if begun := time.Now(); g.Answers().Before(begun) {
		t.Errorf("it is said to answer since %v, though it does not", g.Answers())
	}
	if tail(nil); !g.Ready() {
		t.Error("not ready, though the log answers")
	}
	if g.heard(t.Context(), errors.New("closed"), 0); g.Ready() {
		t.Error("ready, though a request has failed")
	}
}
