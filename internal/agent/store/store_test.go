package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tidwall/sjson"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t rapid.TB, dir string) *Store {
	t.Helper()
	// No test cuts the power.
	s, err := OpenWith(bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond}, dir, "paris", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is a new store for the length of a test.
func opened(t testing.TB) *Store {
	t.Helper()
	s := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put is a put frame for a ConfigMap of a key.
func put(k, uid, content string) wire.Frame {
	object := fmt.Appendf(nil, `{"apiVersion":"v1","data":{"v":%q},"kind":"ConfigMap"}`, content)
	return wire.Frame{Put: &wire.Put{Key: k, UID: uid, Digest: wire.SumOf(object), Object: object}}
}

func del(k string, cause wire.Cause) wire.Frame {
	return wire.Frame{Del: &wire.Del{Key: k, Cause: cause}}
}

// now is when everything in tests of the intake happens.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// take puts frames into the store by an intake, in one transaction.
func take(s *Store, in *Intake, frames ...wire.Frame) error {
	var arrivals []Arrival
	for _, f := range frames {
		a, err := Admit(f)
		if err != nil {
			return err
		}
		arrivals = append(arrivals, a)
	}
	_, err := s.update([]*Commit{{Do: func(x *Tx) (err error) {
		_, *in, err = in.Apply(x, arrivals, now)
		return err
	}}})
	return err
}

func TestHoldKeepsTheLastGoodObject(t *testing.T) {
	s := opened(t)
	in := Intake{Proven: true}
	k := "s/core/configmaps/n/a"
	good := put(k, "1", "good")
	hold := wire.Frame{Hold: &wire.Hold{Key: k, UID: "1", Digest: digest("h"), Error: "rule"}}
	if err := take(s, &in, good, hold, hold); err != nil {
		t.Fatal(err)
	}
	if err := s.View(func(x *Tx) error {
		w, object, err := x.Desired.Get(k)
		if err != nil {
			return err
		}
		if w.Object() == nil || w.Object().Digest != good.Put.Digest || !slices.Equal(object, good.Put.Object) || w.Version != "v1" {
			t.Errorf("kept %+v %s", w, object)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestPruneWindow(t *testing.T) {
	var p pruneWindow
	taken := 0
	for left := 1000; p.take(now, 30, left-taken-1, key.Shard{}); taken++ {
	}
	if taken != 300 {
		t.Errorf("%d of 1000 went at once with 30 %%", taken)
	}
	if p.take(now.Add(pruneSpan-time.Minute), 30, 700, key.Shard{}) {
		t.Error("one more went before the time was over")
	}
	if !p.take(now.Add(pruneSpan+time.Minute), 30, 700, key.Shard{}) {
		t.Error("none went after the time was over")
	}
	p = nil
	for taken = 0; p.take(now, 30, 59-taken, key.Shard{}); taken++ {
	}
	if taken != pruneFree {
		t.Errorf("%d of 60 went at once", taken)
	}
	for started, want := range map[time.Time]bool{
		now.Add(time.Minute): false, now.Add(pruneSpan + time.Minute): true,
		now.Add(-24 * time.Hour): false, // the clock was set back
	} {
		again := p.loaded(started)
		if went := again.take(started, 30, 9, key.Shard{}); went != want {
			t.Errorf("one more went in a process that began at %s: %t", started, went)
		}
	}
}

func TestGuardCountsOnlyWhatIsThere(t *testing.T) {
	s := opened(t)
	in := Intake{Proven: true}
	var frames []wire.Frame
	for i := range 200 {
		frames = append(frames, put(fmt.Sprintf("s/core/configmaps/n/c%d", i), "1", "x"))
	}
	if err := take(s, &in, frames...); err != nil {
		t.Fatal(err)
	}
	// Half of them were applied.
	if _, err := s.update([]*Commit{{Do: func(x *Tx) error {
		x.meta.Settings.PruneMaxPercent = 1
		for i := range 100 {
			if err := x.Records.set(fmt.Sprintf("core/configmaps/n/c%d", i), recordOf("1", "x")); err != nil {
				return err
			}
		}
		return nil
	}}}); err != nil {
		t.Fatal(err)
	}
	frames = frames[:0]
	for i := range 200 {
		cause := wire.Unassigned
		if i%100 >= 60 {
			cause = wire.Deleted
		}
		frames = append(frames, del(fmt.Sprintf("s/core/configmaps/n/c%d", i), cause))
	}
	if err := take(s, &in, frames...); err != nil {
		t.Fatal(err)
	}
	guarded := 0
	if err := s.View(func(x *Tx) error {
		return x.bucket(guardBucket).ForEach(func(_, _ []byte) error { guarded++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	if guarded != 60-pruneFree {
		t.Errorf("%d removals wait, want %d", guarded, 60-pruneFree)
	}
}

func TestStoreGroupsAndKeepsOrder(t *testing.T) {
	s := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	var order []int
	for i := range 2000 {
		if err := s.Submit(ctx, &Commit{
			Do:   func(x *Tx) error { return x.putJSON(statusBucket, "k", i) },
			Done: func() { order = append(order, i) },
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(ctx, func(*Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	if !slices.IsSorted(order) || len(order) != 2000 {
		t.Errorf("%d commits, in order: %v", len(order), slices.IsSorted(order))
	}
	var last int
	if err := s.View(func(x *Tx) error { _, err := x.getJSON(statusBucket, "k", &last); return err }); err != nil || last != 1999 {
		t.Errorf("last is %d: %v", last, err)
	}
}

func TestStoreIsForOneLocationAndOneAgent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, File): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", path, info.Mode().Perm(), want, err)
		}
	}
	if _, err := OpenWith(bolt.Options{Timeout: time.Millisecond}, dir, "paris", nil, quiet); err == nil {
		t.Error("two agents opened one store")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "rome", nil, quiet); err == nil {
		t.Error("another location's store was opened")
	}
}

// TestStoreOfTheFirstAgents opens a store without sums, however it was left.
func TestStoreOfTheFirstAgents(t *testing.T) {
	for _, clean := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, dir)
		if err := write(s, func(x *Tx) error {
			x.meta.Revision = 7
			return errors.Join(x.Records.set("core/configmaps/n/a", &Record{UID: "u"}), x.put(statusBucket, "core/configmaps/n/a", []byte("{}")))
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Update(func(b *bolt.Tx) error {
			value, _ := values{tx: b}.get(metaBucket, string(metaKey))
			text, _, _ := bytes.Cut(value, []byte("\n"))
			old, err := sjson.DeleteBytes(bytes.Clone(text), "written")
			return errors.Join(err, b.Bucket(metaBucket).Put(metaKey, old))
		}); err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			s.unsound.Store(!clean)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir)
			if m := s.Meta(); m.Revision != 7 || m.Written == (wire.Sum{}) {
				t.Errorf("%v, %d: the store has %+v", clean, round, m)
			}
			if all, err := filepath.Glob(filepath.Join(dir, "*corrupt*")); err != nil || len(all) > 0 {
				t.Errorf("%v, %d: set aside: %v %v", clean, round, all, err)
			}
			if round == 1 {
				if err := write(s, func(x *Tx) error { return x.Records.set("core/configmaps/n/b", &Record{UID: "u"}) }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func write(s *Store, do func(*Tx) error) error {
	_, err := s.update([]*Commit{{Do: do}})
	return err
}

func TestReportsStayUnsentUntilAcknowledged(t *testing.T) {
	s := opened(t)
	set := func(k string, report *wire.Report) {
		t.Helper()
		if _, err := s.update([]*Commit{{Do: func(x *Tx) error { return x.Reports.Set(k, report) }}}); err != nil {
			t.Fatal(err)
		}
	}
	set("a", &wire.Report{State: wire.Applied})
	set("b", &wire.Report{State: wire.Applied})
	set("b", nil)
	set("never", nil)
	batch, more, err := s.Unsent(100, 1<<20)
	if err != nil || more {
		t.Fatal(err, more)
	}
	var lines []wire.ReportLine
	for _, u := range batch {
		lines = append(lines, u.Line)
	}
	want := []wire.ReportLine{{Key: "a", Report: &wire.Report{State: wire.Applied}}, {Key: "b", Removed: true}}
	if !reflect.DeepEqual(lines, want) {
		b, err := json.Marshal(lines)
		t.Errorf("to send: %s %v", b, err)
	}
}

// TestABadCommitFailsByItself shows that a write that fails does not keep others from
// being committed.
func TestABadCommitFailsByItself(t *testing.T) {
	s := opened(t)
	var batch []*Commit
	done, failed := 0, 0
	for i := range 20 {
		batch = append(batch, &Commit{
			Do: func(x *Tx) error {
				switch i {
				case 3:
					return errors.New("no")
				case 11:
					panic("nor this")
				}
				return x.putJSON(statusBucket, strconv.Itoa(i), i)
			},
			Done: func() { done++ }, Failed: func(error) { failed++ },
		})
	}
	for _, c := range batch[1:] {
		s.work <- c
	}
	s.group(t.Context(), batch[0], time.Now())
	if done != 18 || failed != 2 || s.failing.Load() != nil {
		t.Errorf("%d were done, %d failed", done, failed)
	}
}

// frames are lines as a hub sends them.
func frames(all ...wire.Frame) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, f := range all {
		_ = enc.Encode(f) // frames are JSON, and a buffer takes every write
	}
	return b.Bytes()
}

func FuzzFrames(f *testing.F) {
	a := put("s/core/configmaps/n/a", "1", "a")
	f.Add(frames(a, wire.Frame{Mark: &wire.Mark{Revision: 10}}, del("s/core/configmaps/n/a", wire.Unassigned), wire.Frame{Mark: &wire.Mark{Revision: 11}}))
	f.Add(frames(a, wire.Frame{Hold: &wire.Hold{Key: "s/a/b/c"}}, wire.Frame{Settings: &wire.Settings{Halt: "x"}}))
	s := opened(f) // whatever is in it from before
	f.Fuzz(func(t *testing.T, body []byte) {
		in := Intake{Proven: true}
		for dec := wire.NewDecoder(bytes.NewReader(body)); ; {
			var frame wire.Frame
			var syntax *json.SyntaxError
			if err := dec.Decode(&frame); errors.As(err, &syntax) {
				continue
			} else if err != nil {
				break
			}
			a, err := Admit(frame)
			if err != nil {
				continue
			}
			if _, err := s.update([]*Commit{{Do: func(x *Tx) (err error) {
				_, in, err = in.Apply(x, []Arrival{a}, now)
				return err
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		root, count, _, err := recount(s)
		if m := s.Meta(); err != nil || m.Root != root || m.Count != count {
			t.Errorf("root %s of %d, counted %s of %d: %v", m.Root, m.Count, root, count, err)
		}
	})
}

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }
func name(i int) string        { return fmt.Sprintf("s/core/configmaps/n/c%05d", i) }
func recordOf(uid, content string) *Record {
	return &Record{Space: "s", Source: Source{UID: uid, Digest: digest(content)}, UID: "target-uid", Fields: 7, Version: "v1", Kind: "ConfigMap"}
}
