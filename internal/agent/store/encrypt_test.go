package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

var (
	secret      = []byte("a key from outside of the volume")
	otherSecret = []byte("another key from outside of the volume")
)

const password = "aHVudGVyMg-of-the-agent"

func openBy(t testing.TB, dir string, secret []byte) (*Store, error) {
	t.Helper()
	return OpenWith(bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond}, dir, "paris", secret, quiet)
}

func mustOpen(t testing.TB, dir string, secret []byte) *Store {
	t.Helper()
	s, err := openBy(t, dir, secret)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fillWithSecrets puts something into each bucket.
func fillWithSecrets(t testing.TB, s *Store, n int) {
	t.Helper()
	in := &Intake{Proven: true}
	for i := range n {
		if err := take(s, in, put(fmt.Sprintf("s/core/configmaps/n/o%d", i), "1", password)); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(s, func(x *Tx) error {
		x.meta.Fresh = false
		for i := range n {
			k, id := fmt.Sprintf("s/core/configmaps/n/o%d", i), fmt.Sprintf("core/configmaps/n/o%d", i)
			if err := errors.Join(x.Records.set(id, &Record{Space: "s", UID: password}), x.Observed.Set(id, &Live{Status: []byte(password)}),
				x.Reports.Set(k, &wire.Report{UID: "1", State: wire.Failed, Message: password})); err != nil {
				return err
			}
		}
		return x.Removals.add("core/configmaps/n/o0", pendingRemoval{Cause: wire.Unassigned, Placement: "p"})
	}); err != nil {
		t.Fatal(err)
	}
}

// contentOf is all that a store has, as it is read.
func contentOf(t testing.TB, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range valueBuckets() {
		if err := s.scan(name, func(_ *Tx, k string, v []byte) error {
			all[string(name)+"/"+k] = string(v)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestEncryptedStore shows that nothing of what the store holds can be read on the disk,
// that all of it can with the key, and that a store that was there is encrypted whole.
func TestEncryptedStore(t *testing.T) {
	for name, before := range map[string][]byte{"from the beginning": secret, "later on": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, before)
			const objects = encryptStep + 100
			fillWithSecrets(t, s, objects)
			want, meta := contentOf(t, s), *s.Meta()
			if len(want) != 5*objects+1 {
				t.Fatalf("%d values", len(want))
			}
			mustClose(t, s)
			if got := env.FilesWith(t, password, dir); (before == nil) != (len(got) > 0) {
				t.Errorf("with key %q the secret is in %q", before, got)
			}
			s = mustOpen(t, dir, secret)
			if !s.Encrypted() {
				t.Error("it is not encrypted")
			}
			got := contentOf(t, s)
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s is %q, want %q", k, got[k], v)
				}
			}
			now := *s.Meta()
			if len(got) != len(want) || now.Root != meta.Root || now.Unsent != meta.Unsent || now.Count != meta.Count {
				t.Errorf("%d values of %d; %+v, before %+v", len(got), len(want), now, meta)
			}
			if in := env.FilesWith(t, password, dir); len(in) > 0 { // while it is used
				t.Errorf("the secret is in %q", in)
			}
			// It goes on: a sequence that began anew would take a new report for an old one.
			if err := write(s, func(x *Tx) error {
				return x.Reports.Set("s/core/configmaps/n/o1", &wire.Report{UID: "1", State: wire.Failed, Message: password + "2"})
			}); err != nil {
				t.Fatal(err)
			}
			if seq := contentOf(t, s)["unsent/s/core/configmaps/n/o1"]; seq <= want["unsent/s/core/configmaps/n/o1"] {
				t.Errorf("sequence number %q", seq)
			}
			if err := s.Inspect(); err != nil {
				t.Error(err)
			}
			mustClose(t, s)
			if in := env.FilesWith(t, password, dir); len(in) > 0 {
				t.Errorf("the secret is in %q", in)
			}
			if aside := asides(t, dir); len(aside) > 0 {
				t.Errorf("set aside: %q", aside)
			}
		})
	}
}

// TestKeyOfTheStore opens an encrypted store with another key, and without a key: Open fails with a
// helpful error, and does not change the store.
func TestKeyOfTheStore(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, secret)
	fillWithSecrets(t, s, 3)
	want := contentOf(t, s)
	mustClose(t, s)
	for _, wrong := range [][]byte{nil, otherSecret} {
		_, err := openBy(t, dir, wrong)
		if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), filepath.Join(dir, File)) || strings.Contains(err.Error(), "outside of the volume") {
			t.Errorf("with %q: %v", wrong, err)
		}
	}
	if aside := asides(t, dir); len(aside) > 0 {
		t.Errorf("set aside: %q", aside)
	}
	s = mustOpen(t, dir, secret)
	if got := contentOf(t, s); len(got) != len(want) {
		t.Errorf("%d values, want %d", len(got), len(want))
	}
	mustClose(t, s)
	// As the message says: a lost key loses nothing that does not come back.
	if err := os.Remove(filepath.Join(dir, File)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, otherSecret)
	if got := contentOf(t, s); len(got) > 0 || !s.Meta().Fresh {
		t.Errorf("a new store has %v", got)
	}
	mustClose(t, s)
}

// TestSwappedInTheStore shows that a value is good for its place alone, and that damage of
// an encrypted store is found as any other.
func TestSwappedInTheStore(t *testing.T) {
	for name, harm := range map[string]func(b *bolt.Tx) error{
		"swapped": func(b *bolt.Tx) error {
			bucket := b.Bucket(statusBucket)
			_, v := bucket.Cursor().First()
			return bucket.Put([]byte("core/configmaps/n/o2"), bytes.Clone(v))
		},
		"not encrypted": func(b *bolt.Tx) error {
			return b.Bucket(statusBucket).Put([]byte("core/configmaps/n/o2"), []byte(`{}`))
		},
		"what it is encrypted by": func(b *bolt.Tx) error {
			stored, _ := values{tx: b}.stored(boxBucket, string(boxKey))
			return b.Bucket(boxBucket).Put(boxKey, bytes.Replace(stored, []byte(`"id"`), []byte(`"it"`), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, secret)
			fillWithSecrets(t, s, 3)
			if err := s.db.Update(harm); err != nil {
				t.Fatal(err)
			}
			if name == "swapped" {
				if err := s.View(func(x *Tx) error { _, err := x.Observed.Get("core/configmaps/n/o2"); return err }); !errors.Is(err, errCorrupt) {
					t.Errorf("it is read: %v", err)
				}
			}
			if err := os.RemoveAll(filepath.Join(dir, cleanFile)); err != nil {
				t.Fatal(err)
			}
			if err := s.db.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, dir, secret)
			defer mustClose(t, s)
			if aside := asides(t, dir); len(aside) != 1 || !s.Meta().Fresh || !s.Encrypted() {
				t.Errorf("set aside: %q", aside)
			}
		})
	}
}

// TestInterruptedEncryption shows that a start that was cut off while it encrypted has done
// nothing yet, and that stores from before that were set aside are pointed out.
func TestInterruptedEncryption(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, nil)
	fillWithSecrets(t, s, 3)
	want := contentOf(t, s)
	mustClose(t, s)
	for name, what := range map[string]string{File + ".encrypting": "half of it", File + ".corrupt-1": password} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var output bytes.Buffer
	s, err := OpenWith(bolt.Options{NoSync: true}, dir, "paris", secret, slog.New(slog.NewTextHandler(&output, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	if got := contentOf(t, s); len(got) != len(want) || !strings.Contains(output.String(), File+".corrupt-1") {
		t.Errorf("%d values, want %d; output: %s", len(got), len(want), output.String())
	}
	if _, err := os.Stat(filepath.Join(dir, File+".encrypting")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func BenchmarkStoreValues(b *testing.B) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": secret} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), key)
			defer mustClose(b, s)
			value := strings.Repeat("x", 2<<10)
			n := 0
			for b.Loop() {
				n++
				if err := write(s, func(x *Tx) error {
					for i := range 100 {
						if err := x.Observed.Set(fmt.Sprintf("core/configmaps/n/o%d", i), &Live{Status: []byte(value)}); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoad reads what an agent reads when it starts, of 10,000 objects.
func BenchmarkLoad(b *testing.B) {
	s := mustOpen(b, b.TempDir(), secret)
	defer mustClose(b, s)
	for from := range 10 {
		if err := write(s, func(x *Tx) error {
			for i := range 1000 {
				o := key.Object{Space: "shop", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "n", Name: fmt.Sprintf("o-%05d", from*1000+i)}}
				object := []byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"x":"` + strings.Repeat("x", 1<<10) + `"}}`)
				source := Source{UID: fmt.Sprintf("7b6d2c1e-0000-4000-8000-0123456%05d", from*1000+i), Generation: 1, Digest: wire.SumOf(object), Log: ownership.NewPair("m", 5)}
				if err := errors.Join(
					x.Desired.set(o.Path(), nil, Want{Kind: WantPut, Leaf: source, Version: "v1", ObjectKind: "ConfigMap"}, object),
					x.Records.set(o.Identity.String(), &Record{Space: "shop", Source: source, UID: source.UID, As: "a", Generation: 1, Fields: 7, Version: "v1", Kind: "ConfigMap"}),
					x.Reports.Set(o.Path(), &wire.Report{UID: source.UID, Digest: source.Digest, State: wire.Applied, Since: "2026-01-01T00:00:00Z"}),
				); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := loaded(s); err != nil {
			b.Fatal(err)
		}
	}
}
