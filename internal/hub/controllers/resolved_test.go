package controllers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// resolvedLife is a table in which Placements, locations and a space change at random, with the
// cache under test.
type resolvedLife struct {
	t        *testing.T
	rng      *rand.Rand
	tracker  *progress.Tracker
	table    *table.Writer
	resolved *resolutions
	rev      int64
	rows     map[string][]byte
	// generations count the changes of each Placement's spec.
	generations map[string]int
	// spaces counts how often the space was made.
	spaces int
}

var resolvedPlacements = []key.Placement{{Space: "s", Name: "p"}, {Space: "s", Name: "q"}, {Space: key.Root, Name: "r"}}

func newResolvedLife(t *testing.T, seed uint64) *resolvedLife {
	l := &resolvedLife{t: t, rng: rand.New(rand.NewPCG(seed, seed)), tracker: progress.New(progress.Config{}), resolved: newResolutions(), rows: map[string][]byte{}, generations: map[string]int{}}
	l.table = table.New(table.Config{Deriver: placement.New(), Observer: l.tracker, WindowSteps: 10, WindowBytes: 1 << 20})
	return l
}

// counted has all counted that was observed.
func (l *resolvedLife) counted() progress.Dirty {
	for l.tracker.Work(l.t.Context()) {
	}
	return l.tracker.Dirty()
}

// one returns a random one of some texts.
func (l *resolvedLife) one(values ...string) string { return values[l.rng.IntN(len(values))] }

// draw returns a row and its new value; empty: it is deleted.
func (l *resolvedLife) draw() (k, value string) {
	label := l.one("1", "2")
	switch l.rng.IntN(6) {
	case 0:
		k = key.Space("s").Key()
		if l.rows[k] == nil {
			l.spaces++
		}
		value = fmt.Sprintf(`{"metadata":{"name":"s","uid":"s-%d","labels":{"k":%q}}}`, l.spaces, label)
	case 1, 2, 3:
		name := l.one("a", "b", "c")
		k = key.Location(name).Key()
		value = fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"labels":{"k":%q}},"spec":{%s}}`, name, name, label,
			l.one("", "", `"taints":[{"key":"t","effect":"NoPlace"}]`, `"taints":[{"key":"t","effect":"Evict"}]`, `"admit":[{"spaces":{"selector":{"matchLabels":{"k":"1"}}}}]`))
	default:
		p := resolvedPlacements[l.rng.IntN(len(resolvedPlacements))]
		k = p.Object().Key()
		l.generations[k]++
		reaches := ""
		if p.Space == key.Root {
			reaches = `"spaces":{"selector":{"matchLabels":{"k":"1"}}},`
		}
		value = fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u","generation":%d},"spec":{%s"locations":[%s],"downsync":[{"names":["x"]}]%s}}`, p.Name, l.generations[k], reaches,
			l.one(`{"selector":{"matchLabels":{"k":"1"}}}`, `{"names":["a","none"]}`, `{"names":["b"],"selector":{"matchLabels":{"k":"2"}}}`, `{"selector":{}}`),
			l.one("", `,"pick":{"count":1}`, `,"upsync":[{"resources":["events"]}]`))
	}
	if l.rng.IntN(6) == 0 {
		value = ""
	}
	return k, value
}

// step changes a row, or reloads the table, perhaps without some rows.
func (l *resolvedLife) step() {
	l.rev++
	k, value := l.draw()
	if value == "" {
		delete(l.rows, k)
	} else {
		l.rows[k] = []byte(value)
	}
	update := table.Update{Key: k, Value: l.rows[k], CreateRev: 1, ModRev: l.rev}
	if l.rng.IntN(10) > 0 {
		if err := l.table.Apply(l.rev, []table.Update{update}); err != nil {
			l.t.Fatal(err)
		}
		return
	}
	l.reload()
}

// reload loads the table anew.
func (l *resolvedLife) reload() {
	l.rev++
	var all []table.Update
	for k, v := range seeds.Ordered(l.rows) {
		all = append(all, table.Update{Key: k, Value: v, CreateRev: 1, ModRev: l.rev})
	}
	l.table.Reset(l.rev, all)
}

// TestResolutions: after invalidation, cached resolutions equal those of a full computation, and
// they are what the hub has written: each change makes its Placement dirty.
func TestResolutions(t *testing.T) {
	for seed := range seeds.All(t, 50) {
		l := newResolvedLife(t, uint64(seed))
		written := map[key.Placement]string{}
		for range 60 {
			for range 1 + l.rng.IntN(3) {
				l.step()
				if l.rng.IntN(4) == 0 { // a controller comes between
					l.resolved.get(l.table.Table, resolvedPlacements[l.rng.IntN(len(resolvedPlacements))])
				}
			}
			dirty := l.counted()
			again := l.resolved.forget(l.table.Snapshot(), dirty)
			for _, p := range dirty.Placements {
				again = append(again, p.Object().Key())
			}
			for _, k := range again {
				o, err := key.ParseObject(k)
				if err != nil {
					t.Fatal(err)
				}
				p := key.Placement{Space: o.Space, Name: o.Name}
				written[p] = l.resolvedText(p)
			}
			for _, p := range resolvedPlacements {
				if p.Space != key.Root && l.rows[p.Space.Key()] == nil {
					continue // nothing is written in a space that is gone
				}
				if got, want := l.resolvedText(p), l.is(p); got != want || written[p] != "" && written[p] != want || written[p] == "" && want != "null" {
					t.Fatalf("seed %d: %s is %s, written as %s, not %s", seed, p, got, written[p], want)
				}
			}
		}
	}
}

// resolvedText returns the cached resolution of a Placement as text; is returns the computed one.
func (l *resolvedLife) resolvedText(p key.Placement) string {
	is, row := l.resolved.get(l.table.Table, p)
	if row == nil {
		return "null"
	}
	return l.text(is.Status, is.locations)
}

func (l *resolvedLife) is(p key.Placement) string {
	status, ok := placement.StatusOf(l.table.Snapshot(), p)
	if !ok {
		return "null"
	}
	n := len(status.Locations)
	status.Locations = nil
	return l.text(status, n)
}

func (l *resolvedLife) text(values ...any) string {
	b, err := json.Marshal(values)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(b)
}

// TestResolvedBefore: a result from a state before an invalidation is not stored.
func TestResolvedBefore(t *testing.T) {
	r, p := newResolutions(), key.Placement{Space: "s", Name: "p"}
	epoch := r.epoch
	w := table.New(table.Config{WindowSteps: 1, WindowBytes: 1})
	r.forget(w.Snapshot(), progress.Dirty{Moved: []placement.Site{{Name: "a"}}})
	r.keep(epoch, p, resolution{locations: 1})
	if len(r.byPlacement) != 0 {
		t.Errorf("kept: %+v", r.byPlacement)
	}
	r.keep(r.epoch, p, resolution{locations: 1})
	if !reflect.DeepEqual(r.byPlacement, map[key.Placement]resolution{p: {locations: 1}}) {
		t.Errorf("not kept: %+v", r.byPlacement)
	}
	r.forget(w.Snapshot(), progress.Dirty{Placements: []key.Placement{p}}) // it is gone
	if len(r.byPlacement) != 0 {
		t.Errorf("kept of what is gone: %+v", r.byPlacement)
	}
}

// TestResolvedAnew: a reload of the table without locations drops all entries.
func TestResolvedAnew(t *testing.T) {
	l := newResolvedLife(t, 0)
	p, a := resolvedPlacements[0], key.Location("a").Key()
	l.rows = map[string][]byte{
		key.Space("s").Key(): []byte(`{"metadata":{"name":"s","uid":"s"}}`), a: []byte(`{"metadata":{"name":"a","uid":"a"}}`),
		p.Object().Key(): []byte(`{"metadata":{"name":"p","uid":"p","generation":1},"spec":{"locations":[{"names":["a"]}],"downsync":[{"names":["x"]}]}}`),
	}
	for _, want := range []int{1, 0} {
		l.reload()
		l.resolved.forget(l.table.Snapshot(), l.counted())
		if is, _ := l.resolved.get(l.table.Table, p); is.locations != want || len(is.Unknown) != 1-want {
			t.Errorf("%d locations, unknown %v; want %d", is.locations, is.Unknown, want)
		}
		delete(l.rows, a)
	}
}
