package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

// childEnv makes the test binary a process that a test does something to: it
// names what to do, and where.
const childEnv = "ORRERY_TEST_STORE"

func TestMain(m *testing.M) {
	what, dir, ok := strings.Cut(os.Getenv(childEnv), ":")
	if !ok {
		os.Exit(m.Run())
	}
	var err error
	switch what {
	case "write":
		err = writeOn(dir, os.Args[1])
	case "fill":
		err = fillDisk(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(t *testing.T, what, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+what+":"+dir)
	return cmd
}

// random is a frame of a random key with content of a random size.
func random(rng *rand.Rand) Arrival {
	k := name(rng.IntN(200))
	f := put(k, "1", strings.Repeat("x", rng.IntN(3000)))
	if rng.IntN(3) == 0 {
		f = del(k, "deleted")
	}
	a, err := Admit(f)
	if err != nil {
		panic(err)
	}
	return a
}

// change is a write that keeps the store's own sums.
func change(a Arrival) func(*Tx) error {
	return func(x *Tx) error {
		_, _, err := Intake{Proven: true}.Apply(x, []Arrival{a}, now)
		return errors.Join(err, x.Reports.Set(a.object.Path(), nil), x.Records.set(a.object.Identity.String(), recordOf("1", "x")))
	}
}

// writeOn writes until it is killed, and says each time how many changes are durable.
// Its changes are a function of the seed.
func writeOn(dir, seed string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	s, err := Open(dir, "paris", nil, quiet)
	if err != nil {
		return err
	}
	go s.Run(context.Background())
	rng := rand.New(rand.NewPCG(n, 1))
	for {
		if err := s.Write(context.Background(), change(random(rng))); err != nil {
			return err
		}
		if err := s.Write(context.Background(), func(x *Tx) error { x.meta.Revision++; return nil }); err != nil {
			return err
		}
		fmt.Println(s.Meta().Revision)
	}
}

// TestKilledWriter kills a writer at any moment. All changes that it reported as durable are there,
// and the store makes sense.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	rng := seeds.Rand(t, 5)
	for round := range 15 {
		cmd := process(t, "write", dir, strconv.FormatUint(rng.Uint64(), 10))
		var wrong bytes.Buffer
		cmd.Stderr = &wrong
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var last int64
		lines := bufio.NewScanner(output)
		for n := 1 + rng.IntN(60); n > 0 && lines.Scan(); n-- {
			last = revisionIn(t, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // the output before it died
			last = revisionIn(t, lines.Text())
		}
		if err := cmd.Wait(); err == nil || wrong.Len() > 0 {
			t.Fatalf("the writer ended by itself: %v %s", err, &wrong)
		}
		s, err := Open(dir, "paris", nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if set := asides(t, dir); len(set) > 0 {
			t.Fatalf("round %d: %v was set aside", round, set)
		}
		if got := s.Meta().Revision; got < last {
			t.Errorf("round %d: revision %d was reported as durable, there is %d", round, last, got)
		}
		if err := s.db.Close(); err != nil { // without the mark of a clean end
			t.Fatal(err)
		}
	}
}

func revisionIn(t *testing.T, line string) (revision int64) {
	t.Helper()
	if _, err := fmt.Sscan(line, &revision); err != nil {
		t.Fatal(err)
	}
	return revision
}

func asides(t *testing.T, dir string) []string {
	t.Helper()
	set, err := filepath.Glob(filepath.Join(dir, File+".corrupt-*"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// fillDisk writes to a store on a disk that becomes full, and then has room again.
func fillDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	setLimit := func(bytes uint64) error {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			return err
		}
		l.Cur = bytes
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
	s, err := Open(dir, "paris", nil, quiet)
	if err != nil {
		return err
	}
	go s.Run(context.Background())
	if err := setLimit(1 << 20); err != nil {
		return err
	}
	write := func(i int) error {
		a, err := Admit(put(name(i), "1", strings.Repeat("x", 10000)))
		if err != nil {
			return err
		}
		return s.Write(context.Background(), change(a))
	}
	n := 0
	for ; write(n) == nil; n++ {
		if n > 1000 {
			return errors.New("the disk does not become full")
		}
	}
	// It goes on refusing, and what it has can be read.
	for range 2000 {
		if write(n) == nil {
			return errors.New("a full disk took something")
		}
	}
	if s.failing.Load() == nil {
		return errors.New("a store on a full disk does not count as failing")
	}
	if err := s.scan(desiredBucket, func(_ *Tx, k string, v []byte) error { _, err := inspectWant(k, v); return err }); err != nil {
		return err
	}
	if _, count, _, err := recount(s); err != nil || count != n || s.Meta().Count != n {
		return fmt.Errorf("%d of %d are there: %w", count, n, err)
	}
	// An agent can start on it.
	if err := s.db.Close(); err != nil {
		return err
	}
	again, err := Open(dir, "paris", nil, quiet)
	if err != nil {
		return fmt.Errorf("start on a full disk: %w", err)
	}
	s.db = again.db
	if err := setLimit(^uint64(0)); err != nil {
		return err
	}
	deadline := time.Now().Add(limit.Wait)
	for write(n) != nil {
		if time.Now().After(deadline) {
			return errors.New("the store does not recover")
		}
		<-time.After(10 * time.Millisecond)
	}
	<-s.Recovered()
	return nil
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := process(t, "fill", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := Open(dir, "paris", nil, quiet)
	if err != nil || len(asides(t, dir)) > 0 {
		t.Fatal(err, asides(t, dir))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// filledStore is a closed store with some of everything.
func filledStore(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir)
	in := Intake{Proven: true}
	for i := range 300 {
		if err := take(s, &in, put(name(i), "1", strings.Repeat("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Close(); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	return dir
}

// TestDamagedStore damages a store in all ways. It is set aside, a new one is
// opened in its place, and nothing crashes.
func TestDamagedStore(t *testing.T) {
	value := func(bucket []byte, k, v string) func(string) error {
		return func(file string) error {
			db, err := bolt.Open(file, 0o600, nil)
			if err != nil {
				return err
			}
			err = db.Update(func(b *bolt.Tx) error { return b.Bucket(bucket).Put([]byte(k), []byte(v)) })
			return errors.Join(err, db.Close())
		}
	}
	for name, harm := range map[string]func(file string) error{
		"magic":                    func(file string) error { return overwrite(file, 0, bytes.Repeat([]byte{7}, 8192)) },
		"text":                     func(file string) error { return os.WriteFile(file, []byte("this is no store"), 0o600) },
		"half":                     func(file string) error { return shorten(file, 2) },
		"an entry":                 value(desiredBucket, name(1), "garbage"),
		"an entry's object":        value(desiredBucket, name(1), `{"kind":"put","leaf":{"uid":"1","digest":""}}`+"\n{}"),
		"a lost entry":             value(desiredBucket, name(9999), `{"kind":"hold","leaf":{"uid":"1","digest":""}}`+"\n"),
		"a record":                 value(recordBucket, "core/configmaps/n/a", "["),
		"the identity of a record": value(recordBucket, "x", "{}"),
		"a report":                 value(reportBucket, name(1), "\x00"),
		"meta":                     value(metaBucket, string(metaKey), "{"),
		"a missing bucket": func(file string) error {
			db, err := bolt.Open(file, 0o600, nil)
			if err != nil {
				return err
			}
			return errors.Join(db.Update(func(b *bolt.Tx) error { return b.DeleteBucket(recordBucket) }), db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filledStore(t)
			if err := harm(filepath.Join(dir, File)); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, "paris", nil, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if m := s.Meta(); m.Count != 0 || m.Revision != 0 || len(asides(t, dir)) != 1 {
				t.Errorf("opened with %+v, set aside %v", m, asides(t, dir))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(dir, "paris", nil, quiet); err != nil || len(asides(t, dir)) != 1 {
				t.Fatal(err, asides(t, dir))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDamagedPages overwrites random pages. The store is either whole all the
// same, or set aside.
func TestDamagedPages(t *testing.T) {
	rng := seeds.Rand(t, 7)
	aside := 0
	for range 60 {
		dir := filledStore(t)
		file := filepath.Join(dir, File)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		garbage := make([]byte, 1+rng.IntN(4096))
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		if err := overwrite(file, rng.Int64N(info.Size()-4096), garbage); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, "paris", nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		aside += len(asides(t, dir))
		if n := s.Meta().Count; n != 0 && n != 300 {
			t.Errorf("opened with %d entries", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 60 were set aside", aside)
	if aside == 0 {
		t.Error("none was found to be damaged")
	}
}

func overwrite(file string, offset int64, with []byte) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(with, offset)
	return errors.Join(err, f.Close())
}

func shorten(file string, divisor int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	return errors.Join(err, f.Truncate(size-size/divisor), f.Close())
}

// FuzzValues opens stores with any value in any bucket: a malformed one
// is found.
func FuzzValues(f *testing.F) {
	f.Add(uint8(0), name(1), []byte("{}\n{}"))
	f.Add(uint8(1), "core/configmaps/n/a", []byte(`{"space":"s","fields":"zz"}`))
	f.Add(uint8(2), name(1), []byte(`{"state":1}`))
	f.Add(uint8(3), "meta", []byte(`{"location":"paris","root":"00"}`))
	f.Fuzz(func(t *testing.T, bucket uint8, k string, v []byte) {
		if k == "" || len(k) > 1000 {
			return
		}
		s := open(t, t.TempDir())
		err := s.db.Update(func(b *bolt.Tx) error { return b.Bucket(buckets[int(bucket)%len(buckets)]).Put([]byte(k), v) })
		if err != nil {
			t.Fatal(err)
		}
		sound := guarded(s.Inspect) == nil
		if err := guarded(func() error { return loaded(s) }); sound && err != nil {
			t.Errorf("a store that was found sound cannot be loaded: %v", err)
		}
		if err := s.db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
