package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/wire"
)

// replayKeys are the objects of a replay.
var replayKeys = []string{
	"s/core/configmaps/n/a", "s/core/configmaps/n/b", "o/core/configmaps/n/a", "s/core/namespaces/n", "o/apps/deployments/n/d", "s/batch/jobs/n/j",
}

// replay does to a store what a script says, as an agent would.
type replay struct {
	store *Store
	in    Intake
}

// transaction does all of a script at once.
func (r *replay) transaction(text script) error {
	before := r.in
	_, err := r.store.update([]*Commit{{Do: func(x *Tx) error {
		r.in = before
		for rest := text; len(rest) > 0; {
			if err := r.operation(x, &rest); err != nil {
				return err
			}
		}
		return nil
	}}})
	return err
}

// replayOperations is how many there are.
const replayOperations = 12

func (r *replay) operation(x *Tx, text *script) error {
	what, k := text.next()%replayOperations, replayKeys[text.next()%len(replayKeys)]
	identity := k[2:]
	n := text.next()
	uid, content := fmt.Sprint(n%3), strings.Repeat("x", n*8)
	switch what {
	case 0:
		f := put(k, uid, content)
		f.Put.Policy = wire.Policy{Orphan: n%5 == 1, CreateOnly: n%7 == 1}
		return r.take(x, f)
	case 1:
		return r.take(x, wire.Frame{Hold: &wire.Hold{Key: k, UID: uid, Digest: digest(content), Error: content}})
	case 2:
		return r.take(x, wire.Frame{Conflict: &wire.Conflict{Key: k, UID: uid, Digest: digest(content), Owner: replayKeys[0]}})
	case 3:
		return r.take(x, del(k, []wire.Cause{wire.Unassigned, wire.Deleted}[n%2]))
	case 4:
		return r.mark(x, n)
	case 5:
		r.in = Intake{Proven: n%4 != 0, Walking: n%2 == 1}
	case 6:
		if n%4 == 0 {
			return x.Records.set(identity, nil)
		}
		return x.Records.set(identity, recordOf(uid, content))
	case 7:
		if n%4 == 0 {
			return x.Reports.Set(k, nil)
		}
		return x.Reports.Set(k, &wire.Report{UID: uid, State: wire.Applied, Completed: []string{"", "Complete"}[n%2], Status: json.RawMessage(`{"n":1}`)})
	case 8:
		if n%3 == 0 { // the object has no status any more
			return x.put(statusBucket, identity, nil)
		}
		return x.put(statusBucket, identity, []byte(`{"v":"`+content+`"}`))
	case 9:
		s := wire.Settings{PruneMaxPercent: n % 100, Purge: n%16 == 0}
		if n%3 == 0 {
			s.Confirm = []wire.Confirmation{{Digest: x.meta.Guarded.Total().Digest()}}
		}
		return r.take(x, wire.Frame{Settings: &s})
	case 10:
		return r.crowd(x, pruneFree+1+n%8)
	case 11:
		return acknowledge(x)
	}
	return nil
}

func (r *replay) take(x *Tx, f wire.Frame) error {
	a, err := Admit(f)
	if err != nil {
		return err
	}
	_, r.in, err = r.in.Apply(x, []Arrival{a}, now)
	return err
}

// mark ends a batch of frames, mostly with a root that agrees.
func (r *replay) mark(x *Tx, n int) error {
	m := wire.Mark{Revision: x.meta.Revision + int64(n%5) - 1, Root: x.meta.Root, Marker: "m"}
	if n%7 == 6 {
		m.Root = digest("another")
	}
	return r.take(x, wire.Frame{Mark: &m})
}

// crowd applies so many objects and takes them away again that some of the removals wait.
func (r *replay) crowd(x *Tx, n int) error {
	proven := r.in
	r.in = Intake{Proven: true}
	for i := range n {
		if err := r.take(x, put(name(i), "1", "x")); err != nil {
			return err
		}
		if err := x.Records.set(strings.TrimPrefix(name(i), "s/"), recordOf("1", "x")); err != nil {
			return err
		}
	}
	for i := range n {
		if err := r.take(x, del(name(i), wire.Unassigned)); err != nil {
			return err
		}
	}
	r.in = proven
	return nil
}

// acknowledge notes that the hub has the first report that it did not have.
func acknowledge(x *Tx) error {
	k, seq := x.bucket(unsentBucket).Cursor().First()
	if k == nil {
		return nil
	}
	_, err := x.AcknowledgeReport(Unsent{Line: wire.ReportLine{Key: string(k)}, sequence: bytes.Clone(seq)})
	return err
}

func killedStore(t *testing.T, input []byte) {
	text := script(input)
	left, cut := text.next()%16, text.next()<<8+text.next()
	dir := t.TempDir()
	file := filepath.Join(dir, File)
	r := replay{store: open(t, dir), in: Intake{Proven: true}}
	var before []byte
	for ; ; left-- {
		var err error
		if before, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		if err := r.transaction(text.rest(1 + text.next()%32)); err != nil {
			t.Fatal(err)
		}
		if left == 0 || len(text) == 0 {
			break
		}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Inspect(); err != nil {
		t.Fatal(err)
	}
	if err := r.store.db.Close(); err != nil {
		t.Fatal(err)
	}
	reopen(t, dir, content(t, before), content(t, after), killed(before, after, cut))
}

// reopen opens a store whose file a killed agent left, and which holds one or the other.
func reopen(t *testing.T, dir string, before, after map[string]string, left []byte) {
	t.Helper()
	file := filepath.Join(dir, File)
	if err := os.WriteFile(file, left, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenWith(bolt.Options{NoSync: true, NoGrowSync: true, Timeout: time.Millisecond}, dir, "paris", nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if set := asides(t, dir); len(set) > 0 {
		t.Fatalf("%v was set aside", set)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	now := dumped(t, file)
	if missing := differences(before, now); len(missing) > 0 && len(differences(after, now)) > 0 {
		t.Fatalf("neither what was before nor what is after: %v; %v", missing, differences(after, now))
	}
	s = open(t, dir)
	lives(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// content is what a file of a store holds.
func content(t *testing.T, data []byte) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), File)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dumped(t, file)
}

// killed returns the content of a file in the middle of a transaction. A transaction writes its pages in
// order, and then one of the two meta pages at the beginning, which makes the other pages valid. cut has the
// number of writes before the kill; the last one may be incomplete.
func killed(before, after []byte, cut int) []byte {
	size := os.Getpagesize()
	left := append(bytes.Clone(before), make([]byte, len(after)-len(before))...)
	var changed []int
	for _, meta := range []bool{false, true} {
		for offset := 0; offset < len(after); offset += size {
			if (offset < 2*size) == meta && !bytes.Equal(left[offset:offset+size], after[offset:offset+size]) {
				changed = append(changed, offset)
			}
		}
	}
	torn := cut >> 8
	for i, offset := range changed[:min(len(changed), cut%256%(len(changed)+1))] {
		n := size
		if i == cut%256%(len(changed)+1)-1 && torn > 0 {
			n = torn
		}
		copy(left[offset:offset+n], after[offset:])
	}
	return left
}
