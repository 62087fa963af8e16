package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/limit"
)

// TestCompactedByAnOldView: a hub that stood still does not compact by who lived before: not if
// others have come, nor if it is no longer elected.
func TestCompactedByAnOldView(t *testing.T) {
	t.Parallel()
	l := external(t, 0)
	write := func(k string) int64 {
		rev, err := l.Write(t.Context(), []Op{{Key: k, Value: []byte(`{}`)}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	old := write("o/old")
	write("h/one")
	elected := write("l/compaction")
	seen := write("o/newer")
	guarded := func(created int64) context.Context {
		return Guarded(t.Context(), Guard{Key: "l/compaction", CreateRev: created})
	}
	write("h/one") // which says again what it needs
	there := func() bool {
		_, err := l.Client().Client.Get(t.Context(), Prefix+"o/old", clientv3.WithRev(old))
		return err == nil
	}
	compact := func(by view) error { return l.compact(t.Context(), seen, true, nil, by) }
	if err := compact(view{seen, guarded(elected + 1)}); !errors.Is(err, ErrDeposed) || !there() {
		t.Errorf("by who is no longer elected: %v", err)
	}
	joined := write("h/other")
	for name, by := range map[string]context.Context{"elected": guarded(elected), "for want of room": nil} {
		if err := compact(view{seen, by}); !errors.Is(err, ErrMoved) || !there() {
			t.Errorf("%s, by who has not seen another hub: %v", name, err)
		}
	}
	if err := compact(view{joined, guarded(elected)}); err != nil || there() {
		t.Errorf("by who has: %v", err)
	}
}

// TestLate: what was found out long ago is not acted upon.
func TestLate(t *testing.T) {
	now := time.Now()
	for after, want := range map[time.Duration]bool{0: false, promptly: false, promptly + time.Nanosecond: true, -time.Hour: false} {
		if late(now, now.Add(after)) != want {
			t.Errorf("after %s", after)
		}
	}
}

// compactedWhile has history compacted right after the table was first loaded from it.
type compactedWhile struct {
	*table.Writer
	once    sync.Once
	compact func()
}

// Reset implements Applier.
func (c *compactedWhile) Reset(rev int64, state []table.Update) {
	c.Writer.Reset(rev, state)
	c.once.Do(c.compact)
}

// TestCompactedTooLate: whose tail has yet to read what is compacted loads its table anew, with all
// that is in the log; who resumes from below is told.
func TestCompactedTooLate(t *testing.T) {
	t.Parallel()
	l := external(t, 0)
	var first, last int64
	for i := range 20 {
		rev, _, err := l.Put(t.Context(), objectKey(i), []byte(`{}`), 0)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = rev
		}
		last = rev
	}
	to := &compactedWhile{Writer: table.New(table.Config{WindowSteps: 10000, WindowBytes: 1 << 20}), compact: func() {
		if err := l.compact(t.Context(), last, true, nil, view{seen: last}); err != nil {
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done, loaded := make(chan struct{}), make(chan struct{})
	var lost atomic.Int32
	go func() {
		defer close(done)
		_ = l.Tail(ctx, to, Hooks{Lost: func(bool) { lost.Add(1) }, Loaded: sync.OnceFunc(func() { close(loaded) }), Asked: func(error) {}})
	}()
	t.Cleanup(func() { cancel(); <-done })
	limit.Closed(t, loaded, "the table is loaded")
	l.Resume(l.Losses())
	if same(t, l, to.Writer); lost.Load() != 1 {
		t.Errorf("the table was lost %d times", lost.Load())
	}
	if _, err := to.Subscribe(first, nil, table.Under("o/")); !errors.Is(err, table.ErrExpired) {
		t.Errorf("who resumes from what is compacted: %v", err)
	}
}
