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

// TestCompactedByAnOldView shows that a hub that was suspended does not compact on an outdated basis:
// neither if another hub has joined, nor if it is no longer elected.
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
	write("h/one") // an update of the same hub
	exists := func() bool {
		_, err := l.Client().Client.Get(t.Context(), Prefix+"o/old", clientv3.WithRev(old))
		return err == nil
	}
	compact := func(decided basis) error { return compact(t.Context(), l, seen, true, nil, decided) }
	if err := compact(basis{seen, guarded(elected + 1)}); !errors.Is(err, ErrDeposed) || !exists() {
		t.Errorf("by a hub that is no longer elected: %v", err)
	}
	joined := write("h/other")
	for name, election := range map[string]context.Context{"elected": guarded(elected), "for want of room": nil} {
		if err := compact(basis{seen, election}); !errors.Is(err, ErrMoved) || !exists() {
			t.Errorf("%s, by a hub that does not know of another hub: %v", name, err)
		}
	}
	if err := compact(basis{joined, guarded(elected)}); err != nil || exists() {
		t.Errorf("by a hub that knows of all hubs: %v", err)
	}
}

// TestLate shows that the check of a basis is valid for a limited time, by both clocks.
func TestLate(t *testing.T) {
	now := time.Now()
	for after, want := range map[time.Duration]bool{0: false, promptly: false, promptly + time.Nanosecond: true, -time.Hour: false} {
		if isLate(now, now.Add(after)) != want {
			t.Errorf("after %s", after)
		}
	}
}

// compactedWhile compacts history right after the first load of the table.
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

// TestCompactedTooLate shows that a tail whose unread history is compacted reloads its table with all
// keys of the log, and that a reader that resumes below the compaction gets an error.
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
		if err := compact(t.Context(), l, last, true, nil, basis{seen: last}); err != nil {
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done, loaded := make(chan struct{}), make(chan struct{})
	var lost atomic.Int32
	go func() {
		defer close(done)
		_ = l.Tail(ctx, to, Hooks{Lost: func(bool) { lost.Add(1) }, Loaded: sync.OnceFunc(func() { close(loaded) }), Probed: func(error) {}})
	}()
	t.Cleanup(func() { cancel(); <-done })
	limit.Closed(t, loaded, "the table is loaded")
	l.continuity.Resume(l.continuity.Losses())
	if same(t, l, to.Writer); lost.Load() != 1 {
		t.Errorf("the table was lost %d times", lost.Load())
	}
	if _, err := to.Subscribe(first, nil, table.PrefixTopic("o/")); !errors.Is(err, table.ErrExpired) {
		t.Errorf("resume below the compaction: %v", err)
	}
}
