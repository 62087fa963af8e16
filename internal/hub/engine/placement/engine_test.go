package placement

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/rulepath"
	"orrery.dev/orrery/test/support/seeds"
)

func newTable() (*Engine, *table.Writer) {
	e := New()
	e.Rules = worldRules
	return e, table.New(table.Config{Deriver: e, WindowSteps: 10, WindowBytes: 1 << 20})
}

// memberships describes every object of a table.
func membershipsOf(t *table.Writer) map[string]string {
	all := map[string]string{}
	t.Snapshot().Ascend("o/", func(r *table.Row) bool {
		all[r.Key] = describe(r.In)
		return true
	})
	return all
}

func TestEngineEqualsRecomputation(t *testing.T) { checkEngine(t, everything()) }

// TestCompetingSpaces is the same where several spaces place the same identities.
func TestCompetingSpaces(t *testing.T) { checkEngine(t, competition()) }

// TestDefinitionsMeet is the same where several spaces place definitions of one resource.
func TestDefinitionsMeet(t *testing.T) { checkEngine(t, definitionsMeet()) }

// TestFollowing is the same where objects follow those that refer to them.
func TestFollowing(t *testing.T) { checkEngine(t, followers()) }

// TestBoundDefinitions is the same where definitions follow what other spaces have of them.
func TestBoundDefinitions(t *testing.T) { checkEngine(t, bindings()) }

// TestPlacementsOfRoot is the same where Placements of root reach spaces.
func TestPlacementsOfRoot(t *testing.T) { checkEngine(t, reaching()) }

// checkEngine changes a small world at random, several things
// in a revision, and compares the engine's memberships with the naive rules and
// with an engine that sees the same state for the first time.
func checkEngine(t *testing.T, f focus) {
	seeds.Check(t, func(t *rapid.T) {
		w := world{}
		engine, tbl := newTable()
		rev := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				got, want := membershipsOf(tbl), w.naiveMemberships()
				for k := range want {
					if got[k] != want[k] {
						t.Fatalf("%s:\n got %s\nwant %s", k, got[k], want[k])
					}
				}
				checkShared(t, tbl)
				if rev%3 == 0 { // most of the time goes into these two
					checkFresh(t, engine, got, w, rev)
					checkExplain(t, tbl, w)
				}
			},
			"change": func(t *rapid.T) {
				rev++
				var updates []table.Update
				seen, old := map[string]bool{}, maps.Clone(w)
				for range rapid.IntRange(1, 6).Draw(t, "changes") {
					seen[w.drawChange(t, f, rev)] = true
				}
				for _, k := range slices.Sorted(maps.Keys(seen)) {
					u := table.Update{Key: k, ModRev: rev}
					if x := w[k]; x != nil {
						u.Value, u.CreateRev = x.value(), x.createRev
					}
					updates = append(updates, u)
				}
				before := tbl.Snapshot()
				if err := tbl.Apply(rev, updates); err != nil {
					t.Fatal(err)
				}
				checkSame(t, before, tbl.Snapshot())
				if got, want := letGo(t, tbl, rev), old.naiveLetGo(w); !maps.Equal(got, want) {
					t.Fatalf("let go:\n got %v\nwant %v", got, want)
				}
			},
		})
	})
}

// letGo returns why locations lost objects since a revision, which is the one before the last.
func letGo(t *rapid.T, tbl *table.Writer, rev int64) map[string]string {
	all := map[string]string{}
	for _, l := range worldLocations {
		sub, err := tbl.Subscribe(rev-1, nil, table.LocationTopic(l))
		if err != nil {
			t.Fatal(err)
		}
		steps, _, err := sub.Poll()
		if sub.Close(); err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			for _, ch := range step.Changes {
				here := func(r *table.Row) bool {
					if r == nil {
						return false
					}
					m, ok := r.In.(*Membership)
					return ok && m.Contains(l)
				}
				if here(ch.Prev) && !here(ch.Cur) {
					placement, named := LetGo(ch, l)
					all[ch.Row().Key+" at "+string(l)] = fmt.Sprintf("by %q, named %v", placement, named)
				}
			}
		}
	}
	return all
}

// checkShared sees that equal memberships, and equal classes, are one.
func checkShared(t *rapid.T, tbl *table.Writer) {
	seen, classes := map[string]*Membership{}, map[string]*Class{}
	tbl.Snapshot().Ascend("o/", func(r *table.Row) bool {
		m, ok := r.In.(*Membership)
		if !ok {
			return true
		}
		k := draft{m.sources, m.releases, m.rules, m.gate, m.upsyncing, m.shared, m.returning, m.health, false}.key(m.foreignState)
		if seen[k] == nil {
			seen[k] = m
		} else if seen[k] != m {
			t.Fatalf("two memberships %s", describe(m))
		}
		for _, p := range m.Places() {
			if old, ok := classes[p.Class.String()]; ok && old != p.Class {
				t.Fatalf("two classes %s", p.Class)
			}
			classes[p.Class.String()] = p.Class
		}
		return true
	})
}

// checkFresh compares an engine, its indexes included, with one that is shown
// the state at once.
func checkFresh(t *rapid.T, engine *Engine, memberships map[string]string, w world, rev int64) {
	fresh, tbl := newTable()
	tbl.Reset(rev, w.updates(rev))
	if got := membershipsOf(tbl); !maps.Equal(got, memberships) {
		t.Fatalf("from scratch:\n%v\nstep by step:\n%v", got, memberships)
	}
	if !engine.direct.Equal(fresh.direct) {
		t.Fatal("what is directly assigned differs from scratch")
	}
	if got, want := engine.templates.described(), fresh.templates.described(); !maps.Equal(got, want) {
		t.Fatalf("templates: %v, from scratch %v", got, want)
	}
	if got, want := engine.claims.text(), fresh.claims.text(); !maps.Equal(got, want) {
		t.Fatalf("claims: %v, from scratch %v", got, want)
	}
	if got, want := engine.definitions.text(), fresh.definitions.text(); !maps.Equal(got, want) {
		t.Fatalf("definitions: %v, from scratch %v", got, want)
	}
	if got, want := engine.references.text(), fresh.references.text(); !maps.Equal(got, want) {
		t.Fatalf("references: %v, from scratch %v", got, want)
	}
	if got, want := fmt.Sprint(engine.bound), fmt.Sprint(fresh.bound); got != want {
		t.Fatalf("bound: %v, from scratch %v", got, want)
	}
	if got, want := engine.upsyncs.text(), fresh.upsyncs.text(); !maps.Equal(got, want) {
		t.Fatalf("asked: %v, from scratch %v", got, want)
	}
	if got, want := engine.roots.text(), fresh.roots.text(); !maps.Equal(got, want) {
		t.Fatalf("Placements of root: %v, from scratch %v", got, want)
	}
	if len(engine.placements) != len(fresh.placements) || len(engine.customizers) != len(fresh.customizers) || len(engine.locations) != len(fresh.locations) {
		t.Fatalf("%d and %d spaces and %d locations, from scratch %d and %d and %d",
			len(engine.placements), len(engine.customizers), len(engine.locations), len(fresh.placements), len(fresh.customizers), len(fresh.locations))
	}
}

func (ds definitions) text() map[string]string {
	all := map[string]string{}
	for o, foreign := range ds {
		for _, f := range foreign {
			all[o.Path()+" at "+string(f.location)] = f.Spec
		}
	}
	return all
}

func (rs *references) text() map[string]string {
	all := map[string]string{}
	for o, r := range rs.from {
		all["from "+o.Path()] = fmt.Sprint(r.refers, r.home)
		for _, f := range r.followings {
			all["from "+o.Path()+" by "+f.String()] = fmt.Sprint(r.refers)
		}
	}
	for o, followings := range rs.to {
		for f, n := range followings.all {
			all["to "+o.Path()+" by "+f.String()] = fmt.Sprint(n)
		}
	}
	return all
}

func (r roots) text() map[string]string {
	all := map[string]string{}
	for s, placements := range r.bySpace {
		for _, p := range placements {
			all[string(s)] += fmt.Sprint(p.ref, p.set.names, p.scheduling.barred.names, "; ")
		}
	}
	for _, p := range r.all {
		all[p.name] = fmt.Sprint(p.set.names, p.scheduling.barred.names)
	}
	return all
}

func (ts templates) described() map[string]string {
	all := map[string]string{}
	for space, byText := range ts.byText {
		for text, t := range byText {
			needs := "nothing"
			if t.locations != nil {
				needs = fmt.Sprintf("%v %q", t.locations.names, t.locations.needs)
			}
			for k := range t.objects {
				if ts.byObject[k] == t {
					all[k] = fmt.Sprintf("%s in %s: %s", text, space, needs)
				}
			}
		}
	}
	return all
}

func (f following) String() string {
	return fmt.Sprintf("%s %+v %v %v %v %v %v %s", f.placement, f.policy, f.suspended, f.waits, f.kinds, f.locations.names, f.locations.needs, f.consumer)
}

func (c claims) text() map[string]string {
	all := map[string]string{}
	for id, claim := range c {
		if claim.conflict == nil {
			all[id.String()] = string(claim.space) + ": " + describe(claim.as)
			continue
		}
		for space, as := range claim.conflict.as {
			all[id.String()] += string(space) + ": " + describe(as)
			all[id.String()+" in "+string(space)] = describe(as)
			delete(all, id.String())
		}
		for l, spaces := range claim.conflict.byLocation {
			sorted := slices.Sorted(slices.Values(spaces))
			for _, s := range sorted {
				all[id.String()+" at "+string(l)] += string(s) + " "
			}
		}
	}
	return all
}

// checkExplain sees that explanations and statuses agree with the memberships.
func checkExplain(t *rapid.T, tbl *table.Writer, w world) {
	state := tbl.Snapshot()
	checkAsked(t, state, w)
	for _, o := range worldObjects() {
		l := rapid.SampledFrom(worldLocations).Draw(t, "explained location")
		e := Explain(t.Context(), state, o, l)
		if row := state.Get(o.Key()); row != nil {
			m, _ := row.In.(*Membership)
			if got, want := e.Definition != "", m != nil && m.Contains(l) && m.definedAt(l) != nil; got != want {
				t.Fatalf("%s at %s: defined by %q, want any: %v", o, l, e.Definition, want)
			}
		}
		if e.Provided != nil {
			checkProvided(t, e, w, o, l)
			continue
		}
		byPolicy := len(e.Consumers) > 0 || e.Upsynced == nil && (e.Annotation != nil && e.Annotation.Names && e.Annotation.Taint == "" && len(e.Obstacles) == 0 && (e.Admission == nil || e.Admission.Admits))
		for _, p := range e.Placements {
			byPolicy = byPolicy || p.Places
		}
		if got, want := e.Upsynced != nil, slices.Contains(w.naiveYields(o), l); got != want {
			t.Fatalf("%s at %s: it is left to the location: %v, want %v:\n%s", o.Path(), l, got, want, e)
		}
		if e.Placed && !strings.Contains(w.naiveMembership(o), fmt.Sprintf("{Location:%s Policy:%+v ", l, e.Policy)) {
			t.Fatalf("%s at %s: policy %+v is not that of %s", o.Path(), l, e.Policy, w.naiveMembership(o))
		}
		checkCustomizers(t, e)
		if row := state.Get(o.Key()); e.Placed {
			place, _ := row.In.(*Membership).Place(l)
			if got := ClassesOf(state, o, row, worldRules)(state.Get(locationAt(l).Key())); got.String() != place.Class.String() {
				t.Fatalf("%s at %s: class %s, want %s", o.Path(), l, got, place.Class)
			}
		}
		if want := slices.Contains(w.naiveLocationsOf(o), l); e.Placed != want || byPolicy != want {
			t.Fatalf("%s at %s: placed is %v, by policy %v, in truth %v:\n%s", o.Path(), l, e.Placed, byPolicy, want, e)
		}
	}
	for _, space := range append(worldSpaces[:3:3], key.Root) {
		status, ok := StatusOf(state, key.Placement{Space: space, Name: "p"})
		p := w[placementAt(space, "p").Key()]
		if ok != (p != nil && !p.deleting) {
			t.Fatalf("status of p in %s: %v", space, ok)
		}
		if !ok {
			continue
		}
		spec, readable := p.spec.(v1alpha1.PlacementSpec)
		want := w.naiveSeats(space, p.uid, spec, nil)
		if spec.Spaces != nil && space == key.Root {
			want = w.naiveSeatsIn(w.naiveSelected(spec.Locations), p.uid, spec, nil)
		} else if spec.Spaces != nil {
			want = nil
		}
		if !slices.Equal(status.Locations, want) || !readable && len(status.Problems) == 0 || space == key.Root && status.Spaces != w.naiveReached(spec) {
			t.Fatalf("status of p in %s: %+v, want %v and %d", space, status, want, w.naiveReached(spec))
		}
	}
	for _, l := range worldLocations {
		row, there := state.Get(locationAt(l).Key()), w[locationAt(l).Key()]
		for _, space := range worldSpaces {
			exists := w[spaceAt(space).Key()] != nil
			if got, want := row != nil && Shown(row, space), there != nil && w.naiveAdmitsSpace(space, l); exists && got != want {
				t.Fatalf("location %s is shown in %s: %v, want %v", l, space, got, want)
			}
		}
		if row != nil && !Shown(row, key.Root) {
			t.Fatalf("location %s is not shown in root", l)
		}
	}
}

// checkCustomizers sees that the Customizers of an explanation release what it says.
func checkCustomizers(t *rapid.T, e Explanation) {
	var released []string
	for _, c := range e.Customizers {
		if c.Applies {
			released = append(released, c.Releases...)
		}
	}
	if got := rulepath.Join(released); e.Placed && got != e.Policy.Release {
		t.Fatalf("%q is released, of which the Customizers explain %q", e.Policy.Release, got)
	}
}

// checkSame sees that of an object whose memberships before and after are the
// same at a location nothing is different there.
func checkSame(t *rapid.T, before, after *table.Snapshot) {
	after.Ascend("o/", func(row *table.Row) bool {
		old := before.Get(row.Key)
		if old == nil || old.In == nil || row.In == nil {
			return true
		}
		now, ok := row.In.(*Membership)
		if !ok {
			return true
		}
		for _, p := range now.Places() {
			if q, ok := old.In.(*Membership).Place(p.Location); ok && p != q && now.SameAt(p.Location, old.In) {
				t.Fatalf("%s: %+v is said to be the same as %+v", row.Key, p, q)
			}
		}
		return true
	})
}

// TestEngineForgets sees that what is no longer used does not stay.
func TestEngineForgets(t *testing.T) {
	engine, tbl := newTable()
	apply := func(rev int64, k string, x *thing) {
		t.Helper()
		u := table.Update{Key: k, ModRev: rev, CreateRev: 1}
		if x != nil {
			u.Value = x.value()
		}
		if err := tbl.Apply(rev, []table.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	rev := int64(0)
	next := func() int64 { rev++; return rev }
	for _, l := range []key.Location{"a", "b"} {
		apply(next(), locationAt(l).Key(), &thing{})
	}
	object := objectAt("s", "", "configmaps", "n", "x")
	apply(next(), object.Key(), &thing{})
	for i := range 2000 {
		name := strings.Repeat("p", i%50+1)
		spec := v1alpha1.PlacementSpec{
			Suspend:   i%3 == 0,
			Locations: []v1alpha1.LocationSelector{{Names: []string{string(rune('a' + i%2))}}},
			Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Names: []string{"x"}}}},
		}
		apply(next(), placementAt("s", name).Key(), &thing{spec: spec})
		apply(next(), customizerAt("s", name).Key(), &thing{spec: v1alpha1.CustomizerSpec{
			Match: []v1alpha1.ObjectTest{{Names: []string{"x"}}},
			Rules: []v1alpha1.Rule{{Path: fmt.Sprintf("$.data.a%d", i), Release: true}, {Path: fmt.Sprintf("$.data.b%d", i)}},
		}})
		if i%100 == 99 {
			runtime.GC()
		}
	}
	runtime.GC()
	engine.memberships.pool.sweep()
	// The table's window holds what the last steps had before.
	if n := len(engine.memberships.pool.values); n > 30 {
		t.Errorf("%d memberships are kept for one object", n)
	}
	engine.memberships.classPool.sweep()
	if n := len(engine.memberships.classPool.values); n > 30 {
		t.Errorf("%d classes are kept for one object", n)
	}
	if n := len(engine.sets.pool.values); n > 10 {
		t.Errorf("%d location sets are kept", n)
	}
	for i := range 50 {
		apply(next(), placementAt("s", strings.Repeat("p", i+1)).Key(), nil)
		apply(next(), customizerAt("s", strings.Repeat("p", i+1)).Key(), nil)
	}
	if len(engine.claims) != 0 || len(engine.placements) != 0 || len(engine.customizers) != 0 {
		t.Errorf("claims %v, placements %v and customizers %v are left", engine.claims, engine.placements, engine.customizers)
	}
}
