package etcd

import (
	"bytes"
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

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
)

func putOptions() kubernetes.PutOptions { return kubernetes.PutOptions{GetOnFailure: true} }

// reencrypting runs the re-encryption until the test ends or stop is called.
func reencrypting(t *testing.T, l *Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Reencryption().Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// reencrypted waits until all values are encrypted by the newest key.
func reencrypted(t *testing.T, l *Log) ReencryptionProgress {
	t.Helper()
	eventually(t, func() error {
		if r := l.Reencryption().Progress(); r.Floor == 0 || r.Running {
			return fmt.Errorf("it is at %+v", r)
		}
		return nil
	})
	return l.Reencryption().Progress()
}

// TestLogFromBeforeEncryption shows that a plain-text log is encrypted when a hub with a key starts on
// it: the values stay equal, values of other resources are not written, and concurrent writes win.
func TestLogFromBeforeEncryption(t *testing.T) {
	dir := t.TempDir()
	l, end := sealedLog(t, dir, nil)
	const secrets = 60
	before := map[string]int64{}
	for i := range secrets {
		before[secretKey(i)] = put(t, l, secretKey(i), fmt.Sprintf(`{"n":%d}`, i), 0)
		before[reportKey(i)] = put(t, l, reportKey(i), fmt.Sprintf(`{"r":%d}`, i), 0)
		before[objectKey(i)] = put(t, l, objectKey(i), fmt.Sprintf(`{"o":%d}`, i), 0)
	}
	event := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "events"), Namespace: "n", Name: "e"}}.Key()
	lease, err := l.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.client.Client.Put(t.Context(), Prefix+event, `{}`, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	end()

	l, _ = sealedLog(t, dir, sealer(t, "secrets, events", oldKey, identity))
	r := startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	stop := reencrypting(t, l)
	rev := before[secretKey(secrets-1)]
	for i := range 20 { // another writer at the same time
		for ok := false; !ok; { // the re-encryption may write between the read and the write
			var err error
			rev, ok, err = l.Put(t.Context(), secretKey(secrets-1), fmt.Appendf(nil, `{"new":%d}`, i), atRest(t, l, secretKey(secrets-1)).ModRevision)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	done := reencrypted(t, l)
	for k, previous := range before {
		stored := atRest(t, l, k)
		if covered := l.sealer.Covers(k); covered != bytes.HasPrefix(stored.Value, []byte("k8s:enc:secretbox:v1:old:")) || !covered && stored.ModRevision != previous {
			t.Errorf("%s is kept as %.30q of revision %d", k, stored.Value, stored.ModRevision)
		}
	}
	if stored := atRest(t, l, event); stored.Lease != int64(lease.ID) || !bytes.HasPrefix(stored.Value, []byte("k8s:enc:")) {
		t.Errorf("an event is kept as %.30q with lease %d", stored.Value, stored.Lease)
	}
	same(t, l, r.to)
	for i := range secrets {
		want := fmt.Sprintf(`{"n":%d}`, i)
		if i == secrets-1 {
			want = `{"new":19}`
		}
		if row, _ := r.to.Get(secretKey(i)); string(row.Value) != want {
			t.Errorf("%d: %q, want %q", i, row.Value, want)
		}
	}
	if done.Written < 2*secrets || done.Written > 2*secrets+2 || done.Pending != 0 || done.Floor < rev {
		t.Errorf("%+v", done)
	}
	// A pass without stale values writes nothing.
	stop()
	l.Reencryption().Request()
	reencrypting(t, l)
	eventually(t, func() error {
		if len(l.reencryption.wake) > 0 || l.Reencryption().Progress().Running {
			return fmt.Errorf("it is at %+v", l.Reencryption().Progress())
		}
		return nil
	})
	if again := l.Reencryption().Progress(); again.Written != done.Written {
		t.Errorf("%+v, before %+v", again, done)
	}
}

// TestKeyThatIsGone shows that a key can be removed when all values are encrypted by another one, even
// if the history has values of the old key: readers then cannot resume from the history.
func TestKeyThatIsGone(t *testing.T) {
	dir := t.TempDir()
	l, end := sealedLog(t, dir, sealer(t, "secrets", oldKey))
	for i := range 5 {
		put(t, l, secretKey(i), `{}`, 0)
	}
	end()
	l, end = sealedLog(t, dir, sealer(t, "secrets", newKey, oldKey))
	r := startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	stop := reencrypting(t, l)
	if done := reencrypted(t, l); done.Written != 5 {
		t.Errorf("%+v", done)
	}
	stop()
	r.stop()
	end()
	l, _ = sealedLog(t, dir, sealer(t, "secrets", newKey))
	r = startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	same(t, l, r.to)
	if row, _ := r.to.Get(secretKey(1)); row == nil || row.CreateRev == row.ModRev {
		t.Errorf("%+v", row)
	}
	put(t, l, secretKey(9), `{}`, 0)
	same(t, l, r.to)
}

// TestReencryptionGoesOn shows that an interrupted re-encryption continues after a restart, at a limited
// rate.
func TestReencryptionGoesOn(t *testing.T) {
	dir := t.TempDir()
	l, end := sealedLog(t, dir, sealer(t, "secrets", oldKey))
	const secrets = 50
	for i := range secrets {
		put(t, l, secretKey(i), `{}`, 0)
	}
	rewritten := 0
	for round := 0; rewritten < secrets; round++ {
		if round > secrets {
			t.Fatal("it never ends")
		}
		end()
		l, end = sealedLog(t, dir, sealer(t, "secrets", newKey, oldKey))
		r := startTail(t, l)
		r.wait(t, r.loaded, "loaded")
		begun := time.Now()
		stop := reencrypting(t, l)
		eventually(t, func() error {
			if now := l.Reencryption().Progress(); now.Written < 10 && now.Floor == 0 {
				return fmt.Errorf("it is at %+v", now)
			}
			return nil
		})
		stop()
		r.stop()
		written := int(l.Reencryption().Progress().Written)
		if least := time.Duration(written-1) * reencryptEvery; time.Since(begun) < least {
			t.Errorf("%d values in %s", written, time.Since(begun))
		}
		rewritten = 0
		for i := range secrets {
			if strings.HasPrefix(string(atRest(t, l, secretKey(i)).Value), "k8s:enc:aesgcm:v1:new:") {
				rewritten++
			}
		}
	}
}

// TestCheckReadable shows which new configurations are accepted.
func TestCheckReadable(t *testing.T) {
	l, _ := sealedLog(t, t.TempDir(), sealer(t, "secrets", oldKey))
	put(t, l, secretKey(1), `{}`, 0)
	put(t, l, objectKey(1), `{}`, 0)
	for name, one := range map[string]struct {
		resources string
		providers []string
		ok        bool
	}{
		"the same":                        {"secrets", []string{oldKey}, true},
		"another":                         {"secrets", []string{newKey, identity}, false},
		"both":                            {"secrets", []string{newKey, oldKey}, true},
		"none for what is encrypted":      {"pods", []string{oldKey}, false},
		"one more resource, plain before": {"secrets, configmaps", []string{oldKey, identity}, true},
		"one more resource":               {"secrets, configmaps", []string{oldKey}, false},
	} {
		s := sealer(t, one.resources, one.providers...)
		if err := l.Reencryption().CheckReadable(t.Context(), s.Covers, s); (err == nil) != one.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemainsAreGone shows how plain text from before encryption is removed from the disk: after
// re-encryption and compaction, a restored backup has none of it.
func TestRemainsAreGone(t *testing.T) {
	dir, restored := t.TempDir(), t.TempDir()
	const secret = "aHVudGVyMg-from-before"
	l, end := sealedLog(t, dir, nil)
	for i := range 20 {
		put(t, l, secretKey(i), fmt.Sprintf(`{"v":%q}`, strings.Repeat(secret, 100)), 0)
	}
	end()
	l, end = sealedLog(t, dir, sealer(t, "secrets", oldKey, identity))
	r := startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	reencrypting(t, l)
	done := reencrypted(t, l)
	if err := compact(t.Context(), l, done.Floor, true, nil, basis{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Backup(t.Context(), f), f.Close()); err != nil {
		t.Fatal(err)
	}
	r.stop()
	end()
	if in := env.FilesWith(t, secret, dir); len(in) == 0 {
		t.Error("nothing has remained: the test shows nothing")
	}
	if err := Restore(file, restored, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	l, end = sealedLog(t, restored, sealer(t, "secrets", oldKey))
	r = startTail(t, l)
	r.wait(t, r.loaded, "loaded")
	same(t, l, r.to)
	if row, _ := r.to.Get(secretKey(1)); row == nil || !strings.Contains(string(row.Value), secret) {
		t.Errorf("restored: %+v", row)
	}
	r.stop()
	end()
	if in := env.FilesWith(t, secret, restored); len(in) > 0 {
		t.Errorf("it has remained in %q", in)
	}
}
