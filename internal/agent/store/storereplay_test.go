package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// replays is the number of inputs of TestStoreReplay.
const replays = 150

// script is an input of a fuzz test: what it says is done one after the other.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// rest takes up to n bytes.
func (s *script) rest(n int) []byte {
	n = min(n, len(*s))
	b := (*s)[:n:n]
	*s = (*s)[n:]
	return b
}

// dumped is all that a store's file holds, by bucket and key.
func dumped(t testing.TB, file string) map[string]string {
	t.Helper()
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	if err := db.View(func(b *bolt.Tx) error {
		return b.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			return bucket.ForEach(func(k, v []byte) error {
				all[string(name)+" "+string(k)] = string(v)
				return nil
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// differences names what two dumps do not have in common.
func differences(a, b map[string]string) (all []string) {
	for k := range a {
		if v, ok := b[k]; !ok || v != a[k] {
			all = append(all, fmt.Sprintf("%q: %q, %q", k, a[k], v))
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			all = append(all, fmt.Sprintf("%q: none, %q", k, b[k]))
		}
	}
	slices.Sort(all)
	return all
}

// furnished is the file of a store with some of everything in it: objects, what
// was applied of them, a removal under way, some that wait for a confirmation,
// reports, statuses. Its agent was killed.
var furnished = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := OpenWith(bolt.Options{NoSync: true, NoGrowSync: true}, dir, "paris", nil, quiet)
	if err != nil {
		return nil, err
	}
	l := replay{store: s, in: Intake{Proven: true}}
	for i := range replayKeys {
		for _, operation := range []byte{0, 6, 7, 8} {
			text := script{operation, byte(i), byte(i), 2}
			if err := l.transaction(text); err != nil {
				return nil, err
			}
		}
	}
	for _, text := range []script{{10, 0, 7}, {3, 1, 0}, {1, 2, 0}, {2, 4, 1}, {4, 0, 1}, {9, 0, 1}} {
		if err := l.transaction(text); err != nil {
			return nil, err
		}
	}
	if err := s.db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, File))
})

// FuzzStoreReplay changes keys and values of a store in any way, as a disk does
// that forgets or mixes up, and starts an agent on it: it has exactly what was
// committed, or the store is set aside and the agent begins with nothing, of which
// nothing follows.
func FuzzStoreReplay(f *testing.F) { f.Fuzz(garbledStore) }

// FuzzStoreKilled does transactions to a store and kills the agent in one of them,
// at any of its writes: the next agent has all of those before, and of this one all
// or nothing.
func FuzzStoreKilled(f *testing.F) { f.Fuzz(killedStore) }

// TestStoreReplay runs the fuzz tests with random inputs. Each takes a few milliseconds without
// the instrumentation of a fuzz test.
func TestStoreReplay(t *testing.T) {
	r := seeds.Rand(t, 11)
	for range seeds.Count(t, replays) {
		text := make([]byte, 1+r.IntN(200))
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		run := func(name string, target func(*testing.T, []byte), text []byte) {
			if !t.Run(name, func(t *testing.T) { target(t, text) }) {
				t.Fatalf("the input was %q", text)
			}
		}
		run("killed", killedStore, text)
		run("garbled", garbledStore, text[:min(len(text), 1+r.IntN(30))])
	}
}

func garbledStore(t *testing.T, text []byte) {
	genuine, err := furnished()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, File)
	if err := os.WriteFile(file, genuine, 0o600); err != nil {
		t.Fatal(err)
	}
	before := dumped(t, file)
	harm := script(text)
	garble(t, file, &harm)
	garbled := dumped(t, file)

	s, err := OpenWith(bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond}, dir, "paris", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for k := range garbled { // what else is beside meta is nobody's
		if other, ok := strings.CutPrefix(k, string(metaBucket)+" "); ok && other != string(metaKey) {
			delete(garbled, k)
		}
	}
	whole := len(differences(before, garbled)) == 0
	if aside := len(asides(t, dir)); aside != 0 == whole {
		t.Fatalf("%d set aside, with these differences: %v", aside, differences(before, garbled))
	}
	if !whole {
		if m := s.Meta(); m.Count != 0 || m.Revision != 0 || countOf(t, s, recordBucket) != 0 {
			t.Errorf("a new store knows %+v", m)
		}
	}
	lives(t, s)
}

// lives shows that an agent can continue with a store: it loads the store, sends reports, applies frames
// for all objects, and confirms the pending removals.
func lives(t testing.TB, s *Store) {
	t.Helper()
	if err := loaded(s); err != nil {
		t.Fatalf("load: %v", err)
	}
	if _, _, err := s.Unsent(1000, 1<<20); err != nil {
		t.Fatalf("reports: %v", err)
	}
	l := replay{store: s, in: Intake{Proven: true}}
	for i := range replayKeys {
		var all script
		if i == 0 {
			all = script{10, 0, 0}
		}
		for operation := range byte(replayOperations) {
			if operation != 10 {
				all = append(all, operation, byte(i), 1)
			}
		}
		if err := l.transaction(all); err != nil {
			t.Fatalf("with %q: %v", replayKeys[i], err)
		}
	}
	if err := s.View(func(x *Tx) error { _, err := x.Removals.Status(); return err }); err != nil {
		t.Fatal(err)
	}
	if err := s.Inspect(); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
}

// loaded reads all that an agent reads when it starts.
func loaded(s *Store) error {
	return errors.Join(
		s.EachWant(func(key.Object, *Want) error { return nil }),
		s.EachRecord(func(key.Identity, *Record) error { return nil }),
		s.EachReport(func(key.Object, *wire.Report) error { return nil }),
	)
}

func countOf(t testing.TB, s *Store, bucket []byte) (n int) {
	t.Helper()
	if err := s.View(func(x *Tx) error { n = x.bucket(bucket).Stats().KeyN; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// garble does to the content of a store's file what the input says.
func garble(t testing.TB, file string, harm *script) {
	t.Helper()
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(b *bolt.Tx) error {
		for len(*harm) > 0 {
			if err := garbleOne(b, harm); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// fragments are what values are replaced by, in whole or where they have a number.
var fragments = []string{
	"", "null", "{}", "[]", `""`, "{", "0", "-1", "99999999999999999999", "1e400", "{}\n{}", "\x00", "\xff\xfe",
	`{"version":2}`, strings.Repeat("[", 20000), `{"kind":"put"}` + "\n", `{"kind":"hold"}` + "\n", "{}\n0",
}

// buckets are those of a store.
var buckets = [][]byte{desiredBucket, recordBucket, reportBucket, metaBucket, unsentBucket, guardBucket, statusBucket}

// garbleOne does one thing to one bucket, or to two of its keys.
func garbleOne(b *bolt.Tx, harm *script) error {
	name := buckets[harm.next()%len(buckets)]
	bucket := b.Bucket(name)
	what := harm.next()
	k, v := entry(bucket, harm.next())
	other, otherValue := entry(bucket, harm.next())
	if k == nil && what%9 != 6 && what%9 != 8 {
		return nil
	}
	switch what % 9 {
	case 0:
		v = v[:harm.next()*len(v)/256]
	case 1:
		if len(v) > 0 {
			v[(harm.next()<<8+harm.next())%len(v)] ^= byte(1 + harm.next())
		}
	case 2: // two values change places
		if err := bucket.Put(other, v); err != nil {
			return err
		}
		v = otherValue
	case 3: // one is lost
		return bucket.Delete(k)
	case 4: // one gets another key
		if err := bucket.Delete(k); err != nil {
			return err
		}
		k = append([]byte("x"), harm.rest(20)...)
	case 5:
		v = []byte(fragments[harm.next()%len(fragments)])
	case 6: // there is one more
		k, v = append([]byte(replayKeys[harm.next()%len(replayKeys)]), harm.rest(4)...), []byte(fragments[harm.next()%len(fragments)])
	case 7:
		if index := bytes.IndexAny(v, "123456789"); index >= 0 {
			v = slices.Concat(v[:index], []byte(fragments[harm.next()%len(fragments)]), v[index+1:])
		}
	case 8: // the value of another bucket
		from := b.Bucket(buckets[harm.next()%len(buckets)])
		k, v = entry(from, harm.next())
		if k == nil {
			return nil
		}
	}
	return bucket.Put(k, v)
}

// entry is a copy of the nth entry of a bucket, counted round and round; nil: there is none.
func entry(bucket *bolt.Bucket, n int) (k, v []byte) {
	all := bucket.Stats().KeyN
	if all == 0 {
		return nil, nil
	}
	c := bucket.Cursor()
	k, v = c.First()
	for range n % all {
		if next, value := c.Next(); next != nil {
			k, v = next, value
		}
	}
	return bytes.Clone(k), bytes.Clone(v)
}
