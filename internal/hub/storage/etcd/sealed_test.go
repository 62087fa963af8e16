package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/storage/encryption"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
)

// Providers of encryption configurations.
const (
	oldKey   = `{secretbox: {keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}}`
	newKey   = `{aesgcm: {keys: [{name: new, secret: ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=}]}}`
	identity = `{identity: {}}`
)

func sealer(t testing.TB, resources string, providers ...string) *encryption.Sealer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- {resources: [%s], providers: [%s]}\n",
		resources, strings.Join(providers, ", "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := encryption.Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// sealedLog opens the log of a directory until the test ends, or end is called.
func sealedLog(t *testing.T, dir string, s Sealer) (_ *Log, end func()) {
	t.Helper()
	l, err := Open(t.Context(), Config{DataDir: dir, UnsafeNoFsync: true, Sealer: s, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return l, end
}

func secretKey(i int) string {
	return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "secrets"), Namespace: "n", Name: fmt.Sprint(i)}}.Key()
}

func reportKey(i int) string {
	o, err := key.ParseObject(secretKey(i))
	if err != nil {
		panic(err)
	}
	return key.Report{Location: "paris", Origin: key.Placed, Object: o}.Key()
}

func put(t *testing.T, l *Log, k, value string, seen int64) int64 {
	t.Helper()
	rev, ok, err := l.Put(t.Context(), k, []byte(value), seen)
	if err != nil || !ok {
		t.Fatalf("put %q: %v, %v", k, ok, err)
	}
	return rev
}

// atRest returns the stored form of the value of a key.
func atRest(t *testing.T, l *Log, k string) *mvccpb.KeyValue {
	t.Helper()
	r, err := l.raw.Get(t.Context(), Prefix+k)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("%d values of %q, %v", len(r.Kvs), k, err)
	}
	return r.Kvs[0]
}

// tailing is a running Tail.
type tailing struct {
	to           *table.Writer
	lost, loaded chan struct{}
	done         chan error
	stop         func()
}

func startTail(t *testing.T, l *Log) *tailing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &tailing{
		to:   table.New(table.Config{WindowSteps: 10000, WindowBytes: 1 << 26}),
		lost: make(chan struct{}, 100), loaded: make(chan struct{}, 100), done: make(chan error, 1),
	}
	go func() {
		r.done <- l.Tail(ctx, r.to, Hooks{
			Lost: func(bool) { r.lost <- struct{}{} }, Probed: func(error) {},
			Loaded: func() { l.continuity.Resume(l.continuity.Losses()); r.loaded <- struct{}{} },
		})
		close(r.done)
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-r.done })
	t.Cleanup(r.stop)
	return r
}

func (r *tailing) wait(t *testing.T, event <-chan struct{}, name string) {
	t.Helper()
	select {
	case <-event:
	case err := <-r.done:
		t.Fatalf("not %s: %v", name, err)
	case <-time.After(limit.Wait):
		t.Fatalf("not %s", name)
	}
}

// TestNothingOfSecretsIsOnDisk writes a secret by all kinds of requests, and searches all files of
// etcd and a backup for it.
func TestNothingOfSecretsIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	l, end := sealedLog(t, dir, sealer(t, "secrets", oldKey, identity))
	to := tail(t, l)
	const secret, other = "aHVudGVyMg-never-seen", "b3JkaW5hcnk-always-seen"
	value := fmt.Sprintf(`{"metadata":{"uid":"u"},"data":{"password":%q}}`, secret)
	rev := put(t, l, secretKey(1), value, 0)
	put(t, l, secretKey(1), value+" ", rev)
	put(t, l, objectKey(1), fmt.Sprintf(`{"data":{"v":%q}}`, other), 0)
	if _, err := l.Write(t.Context(), []Op{{Key: reportKey(1), Value: []byte(value)}, {Key: reportKey(2), Value: []byte(value)}}); err != nil {
		t.Fatal(err)
	}
	if _, stale, err := l.WriteChanges(t.Context(), []Change{{Op: Op{Key: reportKey(3), Value: []byte(value)}}, {Op: Op{Key: secretKey(3), Value: []byte(value)}}}); err != nil || len(stale) > 0 {
		t.Fatal(stale, err)
	}
	// The requests of the registries of Kubernetes, and the response after a conflict.
	client := l.Client()
	if r, err := client.Kubernetes.OptimisticPut(t.Context(), Prefix+secretKey(4), []byte(value), 0, putOptions()); err != nil || !r.Succeeded {
		t.Fatal(r, err)
	}
	if r, err := client.Kubernetes.OptimisticPut(t.Context(), Prefix+secretKey(4), []byte(value), 1, putOptions()); err != nil || r.Succeeded || string(r.KV.Value) != value {
		t.Fatal(r, err)
	}
	if r, err := client.Put(t.Context(), Prefix+secretKey(4), value, clientv3.WithPrevKV()); err != nil || string(r.PrevKv.Value) != value {
		t.Fatal(r, err)
	}
	if r, err := client.Delete(t.Context(), Prefix+secretKey(4), clientv3.WithPrevKV()); err != nil || string(r.PrevKvs[0].Value) != value {
		t.Fatal(r, err)
	}
	if _, err := client.Txn(t.Context()).If(clientv3.Compare(clientv3.Value(Prefix+secretKey(1)), "=", value)).Commit(); err == nil {
		t.Error("what is encrypted is compared")
	}
	same(t, l, to)
	if row, _ := to.Get(secretKey(1)); string(row.Value) != value+" " || row.Meta.UID != "u" {
		t.Errorf("the table has %q", row.Value)
	}
	backup := filepath.Join(dir, "backup")
	f, err := os.Create(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Backup(t.Context(), f), f.Close()); err != nil {
		t.Fatal(err)
	}
	end()
	if in := env.FilesWith(t, secret, dir); len(in) > 0 {
		t.Errorf("the secret is in %q", in)
	}
	if in := env.FilesWith(t, other, dir); len(in) < 3 { // else the search finds nothing
		t.Errorf("what is no secret is only in %q", in)
	}
}

// TestForeignKey shows that the load of a log fails, and omits no value silently, if no key decrypts one
// of its values.
func TestForeignKey(t *testing.T) {
	dir := t.TempDir()
	l, end := sealedLog(t, dir, sealer(t, "secrets", oldKey))
	put(t, l, objectKey(1), `{}`, 0)
	put(t, l, secretKey(1), `{}`, 0)
	end()
	for name, s := range map[string]Sealer{
		"another key": sealer(t, "secrets", newKey, identity), "a key for others": sealer(t, "configmaps", oldKey, identity),
	} {
		l, end := sealedLog(t, dir, s)
		r := startTail(t, l)
		select {
		case err := <-r.done:
			if !errors.Is(err, ErrSealed) || !strings.Contains(err.Error(), secretKey(1)) {
				t.Errorf("%s: %v", name, err)
			}
		case <-r.loaded:
			t.Errorf("%s: loaded", name)
		case <-time.After(limit.Wait):
			t.Fatalf("%s: neither loaded nor failed", name)
		}
		r.stop()
		end()
	}
}

// TestSwappedValues replaces the stored value of one Secret by that of another one below a running hub.
// The hub must detect that, block reads and writes, and continue when the value is repaired.
func TestSwappedValues(t *testing.T) {
	l, _ := sealedLog(t, t.TempDir(), sealer(t, "secrets", oldKey, identity))
	r := startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	put(t, l, secretKey(1), `{"n":1}`, 0)
	put(t, l, secretKey(2), `{"n":2}`, 0)
	same(t, l, r.to)
	right := string(atRest(t, l, secretKey(2)).Value)
	swap := func(value string) {
		if _, err := l.raw.Put(t.Context(), Prefix+secretKey(2), value); err != nil {
			t.Fatal(err)
		}
	}
	swap(string(atRest(t, l, secretKey(1)).Value))
	r.wait(t, r.lost, "lost")
	if row, _ := r.to.Get(secretKey(2)); row == nil || string(row.Value) != `{"n":2}` {
		t.Errorf("the table has %v", row)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := l.Put(short, objectKey(1), []byte(`{}`), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is written to: %v", err)
	}
	if _, err := l.Client().Client.Get(t.Context(), Prefix+secretKey(2)); !errors.Is(err, ErrSealed) {
		t.Errorf("it is read: %v", err)
	}
	swap(right)
	r.wait(t, r.loaded, "loaded again")
	same(t, l, r.to)
}

// BenchmarkPuts writes covered and other keys, to a log with and to one without encryption.
func BenchmarkPuts(b *testing.B) {
	value := []byte(fmt.Sprintf(`{"metadata":{"uid":"u"},"data":{"v":%q}}`, strings.Repeat("x", 1<<10)))
	for name, keys := range map[string][]string{"plain": nil, "encrypting": {oldKey, identity}} {
		var s Sealer
		if keys != nil {
			s = sealer(b, "secrets", keys...)
		}
		for kind, k := range map[string]string{"secret": secretKey(1), "other": objectKey(1)} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				l, err := Open(b.Context(), Config{DataDir: b.TempDir(), UnsafeNoFsync: true, Sealer: s, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				b.ReportAllocs()
				rev := int64(0)
				for b.Loop() {
					var ok bool
					if rev, ok, err = l.Put(b.Context(), k, value, rev); err != nil || !ok {
						b.Fatal(ok, err)
					}
					if _, err := l.Client().Client.Get(b.Context(), Prefix+k); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
