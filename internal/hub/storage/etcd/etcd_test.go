package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(t.Context(), Config{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// tail runs Tail until the test ends and returns once the table is loaded.
func tail(t *testing.T, l *Log) *table.Writer {
	t.Helper()
	to := table.New(table.Config{WindowSteps: 10000, WindowBytes: 1 << 26})
	ctx, cancel := context.WithCancel(t.Context())
	done, loaded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Tail(ctx, to, Hooks{Lost: func(bool) {}, Loaded: sync.OnceFunc(func() { close(loaded) }), Probed: func(error) {}})
	}()
	t.Cleanup(func() { cancel(); <-done })
	limit.Closed(t, loaded, "the table is loaded")
	return to
}

func objectKey(i int) string {
	return key.Object{Space: "s", Identity: key.Identity{
		Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: fmt.Sprint("cm-", i)}}.Key()
}

// TestTailEqualsLog writes at random and compares the table with etcd at each
// step, and a table that starts from an older revision with the first one.
func TestTailEqualsLog(t *testing.T) {
	l := open(t, t.TempDir())
	to := tail(t, l)
	rng := seeds.Rand(t, 1)
	for i := range 300 {
		k := objectKey(rng.IntN(20))
		switch rng.IntN(4) {
		case 0:
			if _, err := l.Write(t.Context(), []Op{{Key: k}}); err != nil {
				t.Fatal(err)
			}
		case 1:
			ops := []Op{{Key: "r/x/s/placed/core/configmaps/default/a", Value: fmt.Appendf(nil, `{"n":%d}`, i)}, {Key: "r/x/s/placed/core/configmaps/default/b", Value: []byte(`{}`)}}
			if _, err := l.Write(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		default:
			row, _ := to.Get(k)
			modRev := int64(0)
			if row != nil {
				modRev = row.ModRev
			}
			if _, ok, err := l.Put(t.Context(), k, fmt.Appendf(nil, `{"metadata":{"uid":"u","generation":%d}}`, i), modRev); err != nil || !ok {
				t.Fatalf("put %q at revision %d: ok=%v, %v", k, modRev, ok, err)
			}
		}
		same(t, l, to)
	}
	same(t, l, tail(t, l))
	if err := compact(t.Context(), l, to.Rev()-17, false, nil, basis{}); err != nil {
		t.Fatal(err)
	}
	same(t, l, tail(t, l))
}

// same waits until the table has the log's revision, and compares every key.
func same(t *testing.T, l *Log, to *table.Writer) {
	t.Helper()
	rev, err := l.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := to.WaitFor(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	want, err := l.Client().Client.Get(t.Context(), Prefix, clientv3.WithPrefix(), clientv3.WithRev(rev))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*table.Row{}
	to.Snapshot().Ascend("", func(r *table.Row) bool { got[r.Key] = r; return true })
	if len(got) != len(want.Kvs) {
		t.Fatalf("at revision %d the table has %d keys, the log %d", rev, len(got), len(want.Kvs))
	}
	for _, kv := range want.Kvs {
		r := got[string(kv.Key[len(Prefix):])]
		if r == nil || string(r.Value) != string(kv.Value) || r.ModRev != kv.ModRevision || r.CreateRev != kv.CreateRevision {
			t.Fatalf("at revision %d the table differs at %q", rev, kv.Key)
		}
	}
}

// TestResumeAcrossRestart shows that a reader can resume after a restart of the hub.
func TestResumeAcrossRestart(t *testing.T) {
	dir := t.TempDir()
	var start int64
	func() {
		l, err := Open(t.Context(), Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		for i := range 10 {
			rev, _, err := l.Put(t.Context(), objectKey(i), []byte(`{}`), 0)
			if err != nil {
				t.Fatal(err)
			}
			if i == 4 {
				start = rev
			}
		}
	}()
	to := tail(t, open(t, dir))
	sub, err := to.Subscribe(start, nil, table.PrefixTopic(key.SpacePrefix("s")))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	steps, _, err := sub.Poll()
	if err != nil || len(steps) != 5 {
		t.Fatalf("got %d steps, %v; want the 5 writes after revision %d", len(steps), err, start)
	}
}

// TestCompactedStart shows that a hub starts although all history was compacted.
func TestCompactedStart(t *testing.T) {
	l := open(t, t.TempDir())
	var rev int64
	for i := range 10 {
		var err error
		if rev, _, err = l.Put(t.Context(), objectKey(i), []byte(`{}`), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := compact(t.Context(), l, rev, false, nil, basis{}); err != nil {
		t.Fatal(err)
	}
	to := tail(t, l)
	same(t, l, to)
	if _, err := to.Subscribe(rev-1, nil, table.PrefixTopic("o/")); err == nil {
		t.Fatal("subscribed below the compacted revision")
	}
}

func TestWriteSplitsBatches(t *testing.T) {
	l := open(t, t.TempDir())
	before, err := l.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]Op, 250)
	for i := range ops {
		ops[i] = Op{Key: fmt.Sprintf("r/x/s/placed/core/configmaps/default/%03d", i), Value: []byte("{}")}
	}
	rev, err := l.Write(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	if rev != before+3 {
		t.Fatalf("250 keys took %d transactions, want 3", rev-before)
	}
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	f, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(dir); err == nil {
		t.Fatal("locked twice")
	}
	_ = f.Close()
	f, err = LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
