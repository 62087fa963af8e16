package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"orrery.dev/orrery/test/support/etcdtest"
	"orrery.dev/orrery/test/support/limit"
)

// external opens a log at an external etcd with a quota.
func external(t *testing.T, quota int64) *Log {
	t.Helper()
	address := etcdtest.Listen(t, func(c *embed.Config) { c.QuotaBackendBytes = quota })
	l, err := Open(t.Context(), Config{Servers: []string{address}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the context of its client has ended
	return l
}

// TestFailedPrecondition shows that the error of a write distinguishes a deposed hub, changed keys of
// its context, and a failed comparison of its own.
func TestFailedPrecondition(t *testing.T) {
	t.Parallel()
	l := external(t, 0)
	write := func(k string) int64 {
		rev, err := l.Write(t.Context(), []Op{{Key: k, Value: []byte(k)}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	elected, seen := write("l/x"), write("o/seen")
	guarded := Guarded(t.Context(), Guard{Key: "l/x", CreateRev: elected})
	deposed := Guarded(t.Context(), Guard{Key: "l/x", CreateRev: elected + 1})
	for _, c := range []struct {
		name string
		ctx  context.Context
		// seen is the revision at which the writer has read its key.
		seen int64
		ok   bool
		err  error
	}{
		{"its own", Unmoved(guarded, seen, "o/"), seen - 1, false, nil},
		{"deposed", deposed, seen, false, ErrDeposed},
		{"deposed, and its own", deposed, seen - 1, false, ErrDeposed},
		{"deposed and moved", Unmoved(deposed, seen-1, "o/"), seen, false, ErrDeposed},
		{"moved", Unmoved(guarded, seen-1, "o/"), seen, false, ErrMoved},
		{"moved, and nobody is elected", Unmoved(t.Context(), seen-1, "o/"), seen, false, ErrMoved},
		{"nothing", Unmoved(guarded, seen, "o/"), seen, true, nil},
	} {
		if _, ok, err := l.Put(c.ctx, "o/seen", []byte(c.name), c.seen); ok != c.ok || !errors.Is(err, c.err) {
			t.Errorf("what does not hold is %s: %v, %v", c.name, ok, err)
		}
	}
	r, err := l.Client().Txn(guarded).If(clientv3.Compare(clientv3.ModRevision(Prefix+"o/seen"), "=", 0)).
		Else(clientv3.OpGet(Prefix + "o/seen")).Commit()
	if err != nil || r.Succeeded || string(r.Responses[0].GetResponseRange().Kvs[0].Value) != "nothing" {
		t.Errorf("what is read instead: %+v, %v", r, err)
	}
}

// untilRefused calls write, which writes 1 MiB, until it fails, and returns its error. When twice the
// quota is written, it waits until etcd reports a file larger than the quota, which etcd measures
// every 100 ms, and calls write a last time.
func (l *Log) untilRefused(t *testing.T, quota int64, write func() error) error {
	t.Helper()
	for range 2 * quota >> 20 {
		if err := write(); err != nil {
			return err
		}
	}
	late := time.After(limit.Wait)
	for {
		status, err := l.Client().Status(t.Context(), l.Client().Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		if status.DbSize >= quota {
			return write()
		}
		select {
		case <-late:
			t.Fatalf("the file has %d bytes after twice the quota of %d was written", status.DbSize, quota)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestGuardedWithinQuota shows that etcd counts writes with a guard toward its quota.
func TestGuardedWithinQuota(t *testing.T) {
	t.Parallel()
	const quota = 16 << 20
	l := external(t, quota)
	rev, err := l.Write(t.Context(), []Op{{Key: "l/x", Value: []byte("me")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := Guarded(t.Context(), Guard{Key: "l/x", CreateRev: rev})
	err = l.untilRefused(t, quota, func() error {
		_, err := l.Client().Put(ctx, Prefix+"o/x", string(make([]byte, 1<<20)))
		return err
	})
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("a write over the quota: %v, want %v", err, rpctypes.ErrNoSpace)
	}
	if _, err := l.Client().Delete(ctx, Prefix+"o/x"); err != nil {
		t.Errorf("what makes room is refused: %v", err)
	}
}

// TestChangesWithinQuota shows that etcd counts changes toward its quota, and that it refuses them
// while its alarm is raised, except for deletions.
func TestChangesWithinQuota(t *testing.T) {
	t.Parallel()
	const quota, some = 16 << 20, 4
	l := external(t, quota)
	change := func(i int, seen int64, value []byte) Change {
		return Change{Op: Op{Key: fmt.Sprint("r/l/", i), Value: value}, Seen: seen}
	}
	var seen int64
	err := l.untilRefused(t, quota, func() error {
		var changes []Change
		for i := range some {
			changes = append(changes, change(i, seen, make([]byte, 1<<20/some-1<<10)))
		}
		rev, stale, err := l.WriteChanges(t.Context(), changes)
		if err != nil {
			return err
		}
		if seen = rev; len(stale) > 0 {
			t.Fatalf("stale: %q", stale)
		}
		return nil
	})
	if !errors.Is(err, ErrFull) {
		t.Fatalf("a write over the quota: %v, want %v", err, ErrFull)
	}
	// etcd has executed the first transaction that it refused.
	r, err := l.Client().Client.Get(t.Context(), Prefix+"r/l/0", clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	seen = r.Kvs[0].ModRevision
	if _, _, err := l.WriteChanges(t.Context(), []Change{change(0, seen, []byte("1"))}); !errors.Is(err, ErrFull) {
		t.Errorf("a change while the alarm is raised: %v", err)
	}
	if _, stale, err := l.WriteChanges(t.Context(), []Change{change(0, seen, nil)}); err != nil || len(stale) > 0 {
		t.Errorf("what makes room is refused: stale %q, %v", stale, err)
	}
}
