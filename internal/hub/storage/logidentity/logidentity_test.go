package logidentity

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestOlderMarkers: for markers of an older hub without a value, the content of the log
// counts, so that agents stay proven after an upgrade.
func TestOlderMarkers(t *testing.T) {
	var l Identity
	old := func(name string, rev int64) table.Change {
		return table.Change{Cur: &table.Row{Entry: table.NewEntry(key.Marker(name), []byte(`{"started":"2020-01-01T00:00:00Z"}`), rev, rev)}}
	}
	l.Observe(9, []table.Change{old("A", 1), row("x", 6)})
	l.Observe(10, []table.Change{old("B", 10)})
	l.Observe(12, []table.Change{row("x", 12)})
	name, value, err := l.Begin("C", time.Unix(0, 0), false)
	if err != nil {
		t.Fatal(err)
	}
	l.Observe(13, []table.Change{marked(name, value, 13)})
	for _, c := range []struct {
		marker string
		rev    int64
		want   bool
	}{
		{"A", 0, false}, {"A", 1, true}, {"A", 6, true}, {"A", 7, false}, {"A", 10, false},
		{"B", 9, false}, {"B", 10, true}, {"B", 12, true}, {"B", 13, false},
		{"C", 12, false}, {"C", 13, true}, {"C", 14, false}, {"D", 20, false},
	} {
		if got := l.Continuous(c.marker, c.rev); got != c.want {
			t.Errorf("marker %s at revision %d: %v, want %v", c.marker, c.rev, got, c.want)
		}
	}
	if got := l.Spans("B", 11); len(got) != 1 || got[0] != (wire.Revisions{First: 10, Last: 11}) {
		t.Errorf("up to revision 11 B proves %v", got)
	}
	if got := l.Spans("C", 9); got != nil { // it does not exist yet
		t.Errorf("a marker of the future proves %v", got)
	}
}

func marked(name string, value []byte, rev int64) table.Change {
	return table.Change{Cur: &table.Row{Entry: table.NewEntry(key.Marker(name), value, rev, rev)}}
}

func row(name string, rev int64) table.Change {
	return table.Change{Cur: &table.Row{Entry: table.NewEntry("o/"+name, []byte(`{}`), 1, rev)}}
}

// write is one change of a simulated log: a nil value deletes. id is unique to this write, and the
// same in copies.
type write struct {
	key   string
	value []byte
	id    int
}

// etcdLog is a simulated log, and the content of a copy.
type etcdLog struct {
	rev, floor int64 // history below the floor is compacted
	writes     map[int64]write
}

func (e *etcdLog) copy() *etcdLog { return &etcdLog{e.rev, e.floor, maps.Clone(e.writes)} }

// state returns the state at a revision.
func (e *etcdLog) state(revision int64) (all []table.Update) {
	rows := map[string]table.Update{}
	for _, rev := range slices.Sorted(maps.Keys(e.writes)) {
		w := e.writes[rev]
		switch old, ok := rows[w.key]; {
		case rev > revision:
		case w.value == nil:
			delete(rows, w.key)
		case ok:
			rows[w.key] = table.Update{Key: w.key, Value: w.value, CreateRev: old.CreateRev, ModRev: rev}
		default:
			rows[w.key] = table.Update{Key: w.key, Value: w.value, CreateRev: rev, ModRev: rev}
		}
	}
	for _, update := range seeds.Ordered(rows) {
		all = append(all, update)
	}
	return all
}

// history identifies the log up to a revision. Keys with a lease are not part of it.
func (e *etcdLog) history(revision int64) string {
	var ids []int
	for _, rev := range slices.Sorted(maps.Keys(e.writes)) {
		if rev <= revision && !key.ClassOf(e.writes[rev].key).Leased() {
			ids = append(ids, e.writes[rev].id)
		}
	}
	return fmt.Sprint(ids)
}

// memory is the position that an agent knows, with the history of its log.
type memory struct {
	marker  string
	rev     int64
	history string
	life    int // number of restores
}

// identityModel is a hub on a simulated log, which is restored from copies.
type identityModel struct {
	log      *etcdLog
	copies   []*etcdLog
	table    *table.Writer
	identity *Identity
	ids      int
	names    int
	lives    int
	full     bool // there is space only for deletions
	window   int64
	memories []memory
}

func (m *identityModel) write(k string, value []byte) bool {
	if m.full && value != nil {
		return false
	}
	m.ids++
	m.log.rev++
	m.log.writes[m.log.rev] = write{k, value, m.ids}
	return true
}

// apply applies to the table all revisions of the log that it lacks.
func (m *identityModel) apply(t *rapid.T) {
	for rev := m.table.Rev() + 1; rev <= m.log.rev; rev++ {
		w, ok := m.log.writes[rev]
		if !ok {
			continue
		}
		u := table.Update{Key: w.key, Value: w.value, CreateRev: rev, ModRev: rev}
		if old, _ := m.table.Get(w.key); old != nil {
			u.CreateRev = old.CreateRev
		}
		if err := m.table.Apply(rev, []table.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	m.table.Progress(m.log.rev)
}

// load does the work of loading the table.
func (m *identityModel) load(t *rapid.T) {
	from := max(m.log.floor, 1)
	m.table.Reset(from, m.log.state(from))
	m.apply(t)
	m.begin(t)
}

func (m *identityModel) begin(t *rapid.T) {
	m.names++
	name, value, err := m.identity.Begin(fmt.Sprint("marker-", m.names), time.Unix(0, 0), false)
	if err != nil {
		t.Fatal(err)
	}
	if row, _ := m.table.Get(key.Marker(name)); row == nil {
		m.write(key.Marker(name), value)
	}
	m.apply(t)
}

// start starts another process of the hub.
func (m *identityModel) start(t *rapid.T) {
	m.identity = &Identity{}
	m.table = table.New(table.Config{Observer: m.identity, WindowSteps: 100, WindowBytes: 1 << 20})
	m.load(t)
}

// remember adds a memory of an agent.
func (m *identityModel) remember() {
	marker, rev := m.identity.Position(m.table.Rev())
	life := m.lives
	if m.full { // without its own marker, a hub may prove less than it knows
		life = -1
	}
	m.memories = append(m.memories, memory{marker, rev, m.log.history(m.log.rev), life})
}

// check compares the proven positions with the contents of the log and its copies.
func (m *identityModel) check(t *rapid.T) {
	for _, a := range m.memories {
		same := a.rev <= m.log.rev && m.log.history(a.rev) == a.history
		proven := m.identity.Continuous(a.marker, a.rev)
		if proven && !same {
			t.Fatalf("%s at %d is proven and the log never had it", a.marker, a.rev)
		}
		if !proven && a.life == m.lives {
			t.Fatalf("%s at %d is not proven, and nothing was restored", a.marker, a.rev)
		}
	}
}

// TestIdentityModel tests writes, compactions, restarts and restores, also restores that skip as
// many revisions as the log had in the meantime. No position is proven that the log never had, and
// without a restore all positions are proven.
func TestIdentityModel(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := &identityModel{log: &etcdLog{rev: 1, writes: map[int64]write{}}, window: rapid.Int64Range(1, 20).Draw(t, "window")}
		m.start(t)
		steps := map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				m.write(fmt.Sprint("o/", rapid.IntRange(0, 3).Draw(t, "key")), []byte(`{}`))
				m.apply(t)
			},
			"delete": func(t *rapid.T) {
				k := fmt.Sprint("o/", rapid.IntRange(0, 3).Draw(t, "key"))
				if row, _ := m.table.Get(k); row != nil {
					m.write(k, nil)
				}
				m.apply(t)
			},
			"session": func(t *rapid.T) {
				if row, _ := m.table.Get(session); row == nil {
					m.write(session, []byte(`{}`))
				} else {
					m.write(session, nil)
				}
				m.apply(t)
			},
			"second hub": func(t *rapid.T) {
				if !m.full {
					m.runSecondHub(t)
				}
			},
			"others": func(t *rapid.T) {
				m.log.rev += rapid.Int64Range(1, 5).Draw(t, "revisions")
				m.apply(t)
			},
			"full": func(*rapid.T) { m.full = true },
			"room": func(t *rapid.T) {
				m.full = false
				m.begin(t)
			},
			"remember": func(*rapid.T) { m.remember() },
			"compact": func(t *rapid.T) {
				m.compact(t, rapid.Int64Range(0, m.window).Draw(t, "kept"))
			},
			"restart": func(t *rapid.T) {
				if !m.full { // not before there is space for the marker
					m.start(t)
				}
			},
			"reload": func(t *rapid.T) { m.load(t) },
			"backup": func(*rapid.T) { m.copies = append(m.copies, m.log.copy()) },
			"restore": func(t *rapid.T) {
				if len(m.copies) == 0 {
					return
				}
				m.full = false
				m.log = m.copies[rapid.IntRange(0, len(m.copies)-1).Draw(t, "copy")].copy()
				m.lives++
				if isOpen := slices.ContainsFunc(m.log.state(m.log.rev), func(u table.Update) bool { return u.Key == session }); isOpen && rapid.Bool().Draw(t, "lease ends") {
					m.write(session, nil) // as etcd does when the lease ends
				}
				if rapid.Bool().Draw(t, "bump") {
					m.log.rev += rapid.Int64Range(1, 30).Draw(t, "by")
					m.log.floor = m.log.rev
				}
				if rapid.Bool().Draw(t, "used by others") {
					m.log.rev += rapid.Int64Range(1, 10).Draw(t, "revisions")
				}
				if rapid.Bool().Draw(t, "running") {
					m.running(t)
					return
				}
				m.start(t)
			},
			"": m.check,
		}
		t.Repeat(steps)
	})
}

// session is a key with a lease.
var session = key.WholeOf("a").Key()

// runSecondHub starts another hub while the first one writes, and then one of them continues alone.
func (m *identityModel) runSecondHub(t *rapid.T) {
	m.names++
	other := &identityModel{log: m.log, identity: &Identity{}, memories: m.memories, lives: m.lives}
	other.table = table.New(table.Config{Observer: other.identity, WindowSteps: 100, WindowBytes: 1 << 20})
	from := max(m.log.floor, 1)
	other.table.Reset(from, m.log.state(from))
	other.apply(t)
	name, value, err := other.identity.Begin(fmt.Sprint("marker-", m.names), time.Unix(0, 0), true)
	if err != nil {
		t.Fatal(err)
	}
	both := func() {
		m.apply(t)
		m.remember()
		other.apply(t)
	}
	for range rapid.IntRange(0, 4).Draw(t, "writes meanwhile") {
		k := fmt.Sprint("o/", rapid.IntRange(0, 3).Draw(t, "key"))
		if row, _ := m.table.Get(k); row != nil && rapid.Bool().Draw(t, "deletes") {
			m.write(k, nil)
		} else {
			m.write(k, []byte(`{}`))
		}
		both()
	}
	m.write(key.Marker(name), value)
	both()
	m.write("o/0", []byte(`{}`))
	both()
	m.check(t)
	value, open, err := other.identity.Complete(name)
	if err != nil || !open {
		t.Fatalf("the marker is not open: %v", err)
	}
	m.write(key.Marker(name), value)
	both()
	other.memories = m.memories
	other.check(t)
	if rapid.Bool().Draw(t, "the first hub stops") {
		m.identity, m.table = other.identity, other.table
	}
}

// compact removes all history except the newest revisions.
func (m *identityModel) compact(t *rapid.T, kept int64) {
	floor := m.log.rev - kept
	if name, hides := m.identity.Hides(floor); hides {
		row, _ := m.table.Get(key.Marker(name))
		if !m.write(row.Key, row.Value) {
			return // there is no space
		}
		m.apply(t)
	}
	m.log.floor = max(m.log.floor, floor)
}

// running restores the log below a running hub, which may write before it notices.
func (m *identityModel) running(t *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(t, "writes") {
		m.write("o/late", []byte(`{}`))
	}
	m.identity.Distrust()
	m.load(t)
}

const manyRevisions = 50_000

// withMarkers returns an Identity that has observed a number of markers, with changes between them
// that it has not observed.
func withMarkers(markers int64) (l *Identity, rows []table.Change) {
	l, every := &Identity{}, manyRevisions/markers
	var starts []table.Change
	for rev := int64(1); rev <= manyRevisions; rev++ {
		if n := (rev - 1) / every; (rev-1)%every == 0 {
			value := fmt.Appendf(nil, `{"started":"2020-01-01T00:00:00Z","of":"M%d","after":%d}`, n-1, rev-1)
			starts = append(starts, table.Change{Cur: &table.Row{Entry: table.NewEntry(key.Marker(fmt.Sprint("M", n)), value, rev, rev)}})
			continue
		}
		rows = append(rows, table.Change{Cur: &table.Row{Entry: table.NewEntry(fmt.Sprint("o/s/core/configmaps/default/x-", rev), []byte(`{}`), rev, rev)}})
	}
	l.Observe(manyRevisions, starts)
	return l, rows
}

// TestManyMarkers: loading a log with many markers takes about as many steps as any other, and each
// revision keeps its marker. BenchmarkManyMarkers measures the time.
func TestManyMarkers(t *testing.T) {
	allocations := func(markers int64) (*Identity, float64) {
		l, rows := withMarkers(markers)
		return l, testing.AllocsPerRun(1, func() { l.Observe(manyRevisions, rows) })
	}
	_, few := allocations(2)
	many, n := allocations(5000)
	if t.Logf("2 markers: %.0f allocations, 5000: %.0f", few, n); n > few+10 {
		t.Errorf("with 5000 markers it takes %.0f allocations, with 2 %.0f", n, few)
	}
	for rev := range int64(manyRevisions) {
		steps := 0
		found := newest(len(many.least), rev, func(i int) int64 { steps++; return many.least[i] })
		if found != many.find(rev) || steps > bits.Len(5000) {
			t.Fatalf("the marker of revision %d is %d after %d steps, want %d after at most %d", rev, found, steps, many.find(rev), bits.Len(5000))
		}
	}
	for _, rev := range []int64{1, 10, 11, 25_000, 25_001, manyRevisions} {
		want := fmt.Sprint("M", (rev-1)/10)
		if got, revision := many.Position(rev); got != want || revision != rev {
			t.Errorf("revision %d is at marker %q and revision %d, want %q", rev, got, revision, want)
		}
	}
}

func BenchmarkManyMarkers(b *testing.B) {
	for _, markers := range []int64{2, 5000} {
		b.Run(fmt.Sprint(markers), func(b *testing.B) {
			l, rows := withMarkers(markers)
			for b.Loop() {
				l.Observe(manyRevisions, rows)
			}
		})
	}
}
