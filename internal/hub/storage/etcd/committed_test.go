package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/limit"
)

// TestCommitted shows that Committed of an embedded log includes every write that was acknowledged
// before, and that it returns an error for a closed log, and for a standstill longer than its context.
func TestCommitted(t *testing.T) {
	l, err := Open(t.Context(), Config{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 50 {
				wrote, err := l.Write(t.Context(), []Op{{Key: objectKey(w), Value: fmt.Appendf(nil, `{"n":%d}`, i)}})
				if err != nil {
					t.Error(err)
					return
				}
				if rev, err := l.Committed(t.Context()); err != nil || rev < wrote {
					t.Errorf("revision %d was acknowledged, and %d is committed: %v", wrote, rev, err)
				}
			}
		})
	}
	writers.Wait()
	rev, err := l.Committed(t.Context())
	current, err2 := l.revision(t.Context())
	if err != nil || err2 != nil || rev != current {
		t.Errorf("at rest: revision %d, %v; etcd is at %d, %v", rev, err, current, err2)
	}
	end := l.still.begin(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Committed(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while etcd stands still: %v", err)
	}
	end()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Committed(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("of a closed log: %v", err)
	}
}

// TestSilentDisk shows that while an embedded etcd waits for its disk, Committed returns at once, and
// health probes report in time that etcd does not answer, and later that it answers again.
func TestSilentDisk(t *testing.T) {
	l := open(t, t.TempDir())
	wrote, err := l.Write(t.Context(), []Op{{Key: objectKey(0), Value: []byte(`{}`)}})
	if err != nil {
		t.Fatal(err)
	}
	disk := l.server.Server.Backend().ReadTx().(sync.Locker) // locked while etcd commits to its file
	disk.Lock()
	begun := time.Now()
	committed := make(chan int64, 1)
	go func() {
		rev, err := l.Committed(t.Context())
		if err != nil {
			t.Error(err)
		}
		committed <- rev
	}()
	if rev := limit.Receive(t, committed, "the committed revision while the disk stands still"); rev < wrote {
		t.Errorf("revision %d was acknowledged, and %d is committed", wrote, rev)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.Ping(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ping while the disk stands still: %v", err)
	}
	var reported []error
	report := func(err error) { reported = append(reported, err) }
	p := newHealthProbe(l)
	p.start(t.Context(), begun, report)
	p.start(t.Context(), begun.Add(checkTimeout-1), report)
	if len(reported) > 0 {
		t.Errorf("reported too early: %v", reported)
	}
	p.start(t.Context(), begun.Add(checkTimeout), report)
	if len(reported) != 1 || !errors.Is(reported[0], errSilent) {
		t.Errorf("reported while the disk stands still: %v", reported)
	}
	disk.Unlock()
	for reported = nil; len(reported) == 0 || reported[len(reported)-1] != nil; { // the first probe may have timed out
		p.finish(limit.Receive(t, p.results, "etcd answers after the disk does"), report)
		p.start(t.Context(), begun, report)
	}
	_ = limit.Receive(t, p.results, "etcd answers the last request") // its result is not the subject
	if err := l.Ping(t.Context()); err != nil {
		t.Errorf("ping when the disk works again: %v", err)
	}
}
