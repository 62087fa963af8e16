package store

import (
	"path/filepath"
	"strconv"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// recount computes root, count and deferred entries anew from the content.
func recount(s *Store) (root wire.Sum, count, deferred int, err error) {
	err = s.db.View(func(b *bolt.Tx) error {
		return b.Bucket(desiredBucket).ForEach(func(k, v []byte) error {
			w, _, err := decodeWant(v)
			root, count = root.Add(w.Sum(string(k))), count+1
			if w.Deferred {
				deferred++
			}
			return err
		})
	})
	return root, count, deferred, err
}

// TestIntakeModel applies random frames of a hub, of proven and unproven logs, in the stream and in
// comparisons, with crashes in between. It compares the desired entries with a model of the rules.
func TestIntakeModel(t *testing.T) {
	root, run := t.TempDir(), 0
	seeds.Check(t, func(t *rapid.T) {
		run++
		dir := filepath.Join(root, strconv.Itoa(run))
		m := &intakeModel{store: open(t, dir), dir: dir, content: map[string]wire.Sum{}, deferred: map[string]bool{}}
		defer func() {
			if err := m.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		m.in = Intake{Proven: true}
		t.Repeat(map[string]func(*rapid.T){
			"frame": m.frame, "mark": m.mark, "crash": m.crash, "session": m.session, "": m.check,
		})
	})
}

type intakeModel struct {
	store    *Store
	dir      string
	in       Intake
	content  map[string]wire.Sum // what our content must be
	deferred map[string]bool
	dels     []string // of a walk, not believed yet
	revision int64
}

var anyKey = rapid.SampledFrom([]string{
	"s/core/configmaps/n/a", "s/core/configmaps/n/b", "s/core/namespaces/n", "o/core/configmaps/n/a", "o/apps/deployments/n/d",
})

func (m *intakeModel) frame(t *rapid.T) {
	k := anyKey.Draw(t, "key")
	uid, content := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "content")
	var f wire.Frame
	var leaf wire.Sum
	switch rapid.SampledFrom([]string{"put", "hold", "conflict", "del"}).Draw(t, "frame") {
	case "put":
		f = put(k, uid, content)
		leaf = wire.LeafSum(k, uid, f.Put.Digest, wire.Policy{})
	case "hold":
		f = wire.Frame{Hold: &wire.Hold{Key: k, UID: uid, Digest: digest(content), Error: "rule"}}
		leaf = wire.LeafSum(k, uid, digest(content), wire.Policy{})
	case "conflict":
		f = wire.Frame{Conflict: &wire.Conflict{Key: k, UID: uid, Digest: digest(content), Owner: "x"}}
		leaf = wire.LeafSum(k, uid, digest(content), wire.Policy{})
	case "del":
		f = del(k, wire.Deleted)
	}
	if err := take(m.store, &m.in, f); err != nil {
		t.Fatal(err)
	}
	old, existed := m.content[k]
	switch {
	case f.Del != nil && m.in.Walking:
		m.dels = append(m.dels, k)
	case f.Del != nil:
		m.remove(k)
	case existed && !m.in.Proven && old != leaf:
		m.deferred[k] = true
	default:
		m.content[k] = leaf
		delete(m.deferred, k)
	}
}

func (m *intakeModel) remove(k string) {
	if _, ok := m.content[k]; !ok {
		return
	}
	if !m.in.Proven {
		m.deferred[k] = true
		return
	}
	delete(m.content, k)
	delete(m.deferred, k)
}

func (m *intakeModel) root() (root wire.Sum) {
	for _, s := range m.content {
		root = root.Add(s)
	}
	return root
}

func (m *intakeModel) mark(t *rapid.T) {
	back := rapid.IntRange(0, 9).Draw(t, "back") == 0 && m.revision > 0
	revision := m.revision + 1
	if back {
		revision = m.revision - 1
	}
	if !back || !m.in.Proven {
		for _, k := range m.dels {
			m.remove(k)
		}
		m.dels = nil
	}
	root := m.root()
	wrong := rapid.IntRange(0, 4).Draw(t, "wrong") == 0
	if wrong {
		root = root.Add(digest("something else"))
	}
	f := wire.Frame{Mark: &wire.Mark{Revision: revision, Root: root, Marker: "m"}}
	if err := take(m.store, &m.in, f); err != nil {
		t.Fatal(err)
	}
	if !m.in.Marked || m.in.Forward == back {
		t.Fatalf("mark at %d: %+v", revision, m.in)
	}
	if !m.in.Proven || back {
		return
	}
	if m.in.Agrees == wrong {
		t.Fatalf("mark with a root that is wrong=%v: agrees=%v", wrong, m.in.Agrees)
	}
	if !wrong {
		m.revision, m.deferred = revision, map[string]bool{}
	}
}

// session starts another session or walk: what a walk before it has not proven is void.
func (m *intakeModel) session(t *rapid.T) {
	m.dels = nil
	m.in = Intake{Proven: rapid.IntRange(0, 2).Draw(t, "unproven") > 0, Walking: rapid.Bool().Draw(t, "walking")}
}

func (m *intakeModel) crash(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.store = open(t, m.dir)
	m.session(t)
}

func (m *intakeModel) check(t *rapid.T) {
	got := m.store.Meta()
	root, count, deferred, err := recount(m.store)
	if err != nil {
		t.Fatal(err)
	}
	if got.Root != root || got.Count != count || got.Deferred != deferred {
		t.Errorf("kept root %s, %d, %d; counted %s, %d, %d", got.Root, got.Count, got.Deferred, root, count, deferred)
	}
	if want := m.root(); root != want || count != len(m.content) || deferred != len(m.deferred) {
		t.Errorf("content %s, %d, %d deferred; want %s, %d, %d", root, count, deferred, want, len(m.content), len(m.deferred))
	}
	if got.Revision != m.revision {
		t.Errorf("revision %d, want %d", got.Revision, m.revision)
	}
}
