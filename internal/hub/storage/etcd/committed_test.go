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

// TestCommitted: what an embedded log is said to have committed includes all that was acknowledged
// before, whoever wrote it; a log that is closed, or stands still for longer than somebody waits, says
// so.
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
	asked, err2 := l.revision(t.Context())
	if err != nil || err2 != nil || rev != asked {
		t.Errorf("at rest: revision %d, %v; etcd says %d, %v", rev, err, asked, err2)
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

// TestSilentDisk: while an embedded etcd waits for its disk, what was acknowledged is known at once,
// and that it does not answer is said in time, and that it does again.
func TestSilentDisk(t *testing.T) {
	l := open(t, t.TempDir())
	wrote, err := l.Write(t.Context(), []Op{{Key: objectKey(0), Value: []byte(`{}`)}})
	if err != nil {
		t.Fatal(err)
	}
	disk := l.server.Server.Backend().ReadTx().(sync.Locker) // locked while etcd commits to its file
	disk.Lock()
	begun := time.Now()
	said := make(chan int64, 1)
	go func() {
		rev, err := l.Committed(t.Context())
		if err != nil {
			t.Error(err)
		}
		said <- rev
	}()
	if rev := limit.Receive(t, said, "the committed revision while the disk stands still"); rev < wrote {
		t.Errorf("revision %d was acknowledged, and %d is committed", wrote, rev)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := l.Ask(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asked whether it answers, it says %v", err)
	}
	var heard []error
	asked := func(err error) { heard = append(heard, err) }
	p := l.newPulse()
	p.beat(t.Context(), begun, asked)
	p.beat(t.Context(), begun.Add(checkTimeout-1), asked)
	if len(heard) > 0 {
		t.Errorf("said too early: %v", heard)
	}
	p.beat(t.Context(), begun.Add(checkTimeout), asked)
	if len(heard) != 1 || !errors.Is(heard[0], errSilent) {
		t.Errorf("of a disk that stands still was said %v", heard)
	}
	disk.Unlock()
	for heard = nil; len(heard) == 0 || heard[len(heard)-1] != nil; { // the first may have waited for too long
		p.answered(limit.Receive(t, p.answers, "etcd answers after the disk does"), asked)
		p.beat(t.Context(), begun, asked)
	}
	_ = limit.Receive(t, p.answers, "etcd answers the last request") // its answer is not the subject
	if err := l.Ask(t.Context()); err != nil {
		t.Errorf("asked whether it answers again, it says %v", err)
	}
}
