package progress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// digest stands for rendering: what a location gets depends on the spec and on
// the class, and some specs can't be rendered.
func digest(e *table.Entry, class *placement.Class) (wire.Sum, error) {
	spec := gjson.GetBytes(e.Value, "spec").Str
	switch spec {
	case "broken":
		return wire.Sum{}, errors.New("no such field")
	case "c1", "c2":
		return wire.Sum{}, ruleError(spec)
	}
	return wire.SumOf([]byte(spec + "@" + class.String())), nil
}

// ruleError is that a rule of a Customizer failed, whose name it is.
type ruleError string

func (r ruleError) Error() string             { return "a rule of " + string(r) }
func (r ruleError) Reason() string            { return "RuleFailed" }
func (r ruleError) FailedRule() (string, int) { return string(r), 3 }

func objectAt(space key.Space, group, resource, namespace, name string) key.Object {
	return key.Object{Space: space, Identity: key.Identity{Resource: key.NewResource(group, resource), Namespace: namespace, Name: name}}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var (
	testSpaces    = []key.Space{"s1", "s2"}
	testLocations = []key.Location{"a", "b", "c"}
)

func testObjects() (all []key.Object) {
	for _, s := range testSpaces {
		for i := range 4 {
			all = append(all, objectAt(s, "", "configmaps", "n", fmt.Sprint(i)))
		}
	}
	return all
}

// machine drives a table with an engine and a tracker through a random life.
type machine struct {
	table   *table.Writer
	tracker *Tracker
	rev     int64
	// shown is what a hub has written by what was dirty.
	shownPlacements map[key.Placement]shown
	shownLocations  map[key.Location]v1alpha1.Counts
	shownErrors     map[key.Object][]v1alpha1.CustomizerError
}

// shown is the status of a Placement.
type shown struct {
	PlacementCounts
	placement.Status
}

func (m *machine) put(t *rapid.T, updates map[string][]byte) {
	m.rev++
	state := m.table.Snapshot()
	var all []table.Update
	for _, k := range slices.Sorted(maps.Keys(updates)) {
		u := table.Update{Key: k, Value: updates[k], CreateRev: m.rev, ModRev: m.rev}
		if row := state.Get(k); row != nil {
			u.CreateRev = row.CreateRev
		}
		all = append(all, u)
	}
	if err := m.table.Apply(m.rev, all); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) drawValue(t *rapid.T) (k string, value []byte) {
	kind := rapid.SampledFrom([]string{"location", "space", "placement", "object", "object", "object", "report", "report", "report", "report"}).Draw(t, "kind")
	metadata := map[string]any{"uid": rapid.SampledFrom([]string{"u1", "u1", "u1", "u2"}).Draw(t, "uid")}
	labels := map[string]string{"k": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")}
	metadata["labels"] = labels
	switch kind {
	case "location":
		k = objectAt(key.Root, v1alpha1.Group, "locations", "", string(rapid.SampledFrom(testLocations).Draw(t, "location"))).Key()
		status := map[string]any{}
		if connected := rapid.SampledFrom([]string{"", "True", "False"}).Draw(t, "connected"); connected != "" {
			status["conditions"] = []any{map[string]any{"type": "Enrolled", "status": "False"}, map[string]any{"type": "Connected", "status": connected}}
		}
		spec := v1alpha1.LocationSpec{}
		switch rapid.IntRange(0, 5).Draw(t, "admits") {
		case 0:
			spec.Admit = []v1alpha1.Admit{{Spaces: &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{MatchLabels: labels}}}}
		case 1:
			spec.Admit = []v1alpha1.Admit{{Spaces: &v1alpha1.SpaceSelector{Names: []string{"s1"}}}, {Namespaces: []string{"other"}}}
		}
		if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
			spec.Taints = []v1alpha1.Taint{{Key: "k", Effect: rapid.SampledFrom([]v1alpha1.TaintEffect{v1alpha1.TaintNoPlace, v1alpha1.TaintEvict}).Draw(t, "effect")}}
		}
		value = mustJSON(map[string]any{"metadata": metadata, "spec": spec, "status": status})
	case "space":
		k = rapid.SampledFrom(testSpaces).Draw(t, "space").Key()
		value = mustJSON(map[string]any{"metadata": metadata})
	case "placement":
		space := rapid.SampledFrom(append(testSpaces[:2:2], key.Root)).Draw(t, "space")
		k = objectAt(space, v1alpha1.Group, "placements", "", rapid.SampledFrom([]string{"p", "q"}).Draw(t, "name")).Key()
		var reached *v1alpha1.SpaceSelector
		if space == key.Root {
			reached = &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{MatchLabels: labels}}
		}
		var pick *v1alpha1.Pick
		if rapid.IntRange(0, 3).Draw(t, "picks") == 0 {
			pick = &v1alpha1.Pick{Count: 1}
		}
		locations := []v1alpha1.LocationSelector{{Names: []string{"a", "none"}}, {Selector: &metav1.LabelSelector{MatchLabels: labels}}}
		value = mustJSON(map[string]any{"metadata": metadata, "spec": v1alpha1.PlacementSpec{
			Spaces:    reached,
			Suspend:   rapid.IntRange(0, 3).Draw(t, "suspend") == 0,
			Pick:      pick,
			Locations: locations[:rapid.IntRange(1, 2).Draw(t, "entries")],
			Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{
				LabelSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"k": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "wants")}}, {}}[:rapid.IntRange(1, 2).Draw(t, "selectors")],
			}}},
		}})
	case "object":
		k = rapid.SampledFrom(testObjects()).Draw(t, "object").Key()
		if rapid.IntRange(0, 3).Draw(t, "directly") == 0 {
			metadata["annotations"] = map[string]string{v1alpha1.AssignedLocationsAnnotation: `["b"]`}
		}
		value = mustJSON(map[string]any{"metadata": metadata, "spec": rapid.SampledFrom([]string{"x", "y", "broken", "c1", "c2"}).Draw(t, "spec")})
	case "report":
		l := rapid.SampledFrom(testLocations).Draw(t, "by")
		origin := rapid.SampledFrom([]key.Origin{key.Placed, key.Placed, key.Placed, key.Upsynced}).Draw(t, "origin")
		k = key.Report{Location: l, Origin: origin, Object: rapid.SampledFrom(testObjects()).Draw(t, "of")}.Key()
		value = mustJSON(wire.Report{
			UID: metadata["uid"].(string), Reason: rapid.SampledFrom([]string{"", "Forbidden", "Mutated", "Released"}).Draw(t, "reason"), Message: fmt.Sprint(m.rev),
			State: rapid.SampledFrom([]wire.State{
				wire.Applied, wire.Applied, wire.Applied, wire.Failed, wire.Held, wire.InConflict, wire.Unsupported, wire.Waiting, wire.Removing, wire.Orphaned,
			}).Draw(t, "state"),
			Digest: wire.SumOf([]byte(rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "applied") + "@" + string(l))),
			Cause:  rapid.SampledFrom([]wire.Cause{"", "", wire.Unassigned, wire.Walked}).Draw(t, "cause"), LetGoBy: rapid.SampledFrom([]string{"", "", "p", "root/q", "s2/p"}).Draw(t, "let go by"),
			Health: rapid.SampledFrom([]wire.Health{"", "nonsense", wire.Healthy, wire.Healthy, wire.Progressing, wire.Degraded, wire.Degraded, wire.HealthUnknown}).Draw(t, "health"), HealthNote: fmt.Sprint("note ", m.rev),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
		value = nil
	}
	return k, value
}

func (m *machine) change(t *rapid.T) {
	updates := map[string][]byte{}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 10}).Draw(t, "changes") {
		k, value := m.drawValue(t)
		updates[k] = value
	}
	m.put(t, updates)
}

func (m *machine) reset(*rapid.T) {
	var all []table.Update
	snap := m.table.Snapshot()
	for _, prefix := range []string{"o/", "r/"} {
		snap.Ascend(prefix, func(r *table.Row) bool {
			all = append(all, table.Update{Key: r.Key, Value: r.Value, CreateRev: r.CreateRev, ModRev: r.ModRev})
			return true
		})
	}
	m.rev++
	m.table.Reset(m.rev, all)
}

// countAll counts all observed changes.
func countAll(t *Tracker) Dirty {
	for t.Work(context.Background()) {
	}
	return t.Dirty()
}

// concerned are the Placements of a state whose status may change with some locations.
func concerned(state *table.Snapshot, moved []placement.Site) (all []key.Placement) {
	for _, s := range append(testSpaces[:2:2], key.Root) {
		state.Ascend(key.ResourcePrefix(s, key.Placements), func(row *table.Row) bool {
			o, err := key.ParseObject(row.Key)
			if p := (key.Placement{Space: o.Space, Name: o.Name}); err == nil && placement.Concerned(p, row, moved) {
				all = append(all, p)
			}
			return true
		})
	}
	return all
}

// check has a hub write what is dirty, and compares all that it has written
// with counting everything anew.
func (m *machine) check(t *rapid.T) {
	if rapid.Bool().Draw(t, "objects first") {
		m.checkObjects(t)
	}
	m.checkDue(t)
	if rapid.Bool().Draw(t, "partly") { // some changes are applied, and few pairs evaluated
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		m.tracker.Work(ended)
		m.checkDue(t)
	}
	dirty := countAll(m.tracker)
	if dirty.Rev != m.rev {
		t.Fatalf("counted at %d, want %d", dirty.Rev, m.rev)
	}
	state := m.table.Snapshot()
	for _, p := range append(dirty.Placements, concerned(state, dirty.Moved)...) {
		status, _ := placement.StatusOf(state, p)
		m.shownPlacements[p] = shown{m.tracker.Placement(t.Context(), p), status}
	}
	for _, l := range dirty.Locations {
		m.shownLocations[l] = m.tracker.Location(l)
	}
	for _, c := range dirty.Ruling {
		m.shownErrors[c] = m.tracker.Customizer(t.Context(), c)
	}
	m.checkCustomizers(t)
	if again := countAll(m.tracker); len(again.Placements)+len(again.Locations)+len(again.Moved)+len(again.Ruling) > 0 {
		t.Fatalf("dirty without a change: %+v", again)
	}
	placements, locations := m.recount()
	for _, s := range append(testSpaces[:2:2], key.Root) {
		for _, name := range []string{"p", "q"} {
			p := key.Placement{Space: s, Name: name}
			status, _ := placement.StatusOf(m.table.Snapshot(), p)
			counts := placements[p]
			counts.Left, counts.IsLeftUnknown = m.left(p)
			if row := state.Get(key.Object{Space: s, Identity: key.Identity{Resource: key.Placements, Name: name}}.Key()); row != nil {
				counts.UID = row.Meta.UID
			} else { // no client reads its status
				counts.Left, counts.IsLeftUnknown = m.shownPlacements[p].Left, m.shownPlacements[p].IsLeftUnknown
			}
			if got, want := m.shownPlacements[p], (shown{counts, status}); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v:\n got %+v\nwant %+v", p, got, want)
			}
		}
	}
	for _, l := range testLocations {
		if got := m.shownLocations[l]; got != locations[l] {
			t.Fatalf("location %s:\n got %+v\nwant %+v", l, got, locations[l])
		}
	}
	m.checkUnassigned(t)
	m.checkObjects(t)
	for path, o := range m.tracker.objects {
		if o.as == nil && len(o.reports) == 0 {
			t.Fatalf("%s is kept for nothing", path)
		}
	}
}

// checkCustomizers compares where rules fail with looking at every pair.
func (m *machine) checkCustomizers(t *rapid.T) {
	want := map[key.Object][]v1alpha1.CustomizerError{}
	m.table.Snapshot().Ascend("o/", func(row *table.Row) bool {
		o, err := key.ParseObject(row.Key)
		in, ok := row.In.(*placement.Membership)
		if err != nil || !ok {
			return true
		}
		for _, p := range in.Places() {
			var failed ruleError
			_, err := digest(row.Entry, p.Class)
			c := CustomizerIn(o.Space, "")
			if errors.As(err, &failed) && p.Held == "" && p.Owner == "" {
				c.Name = string(failed)
			}
			if c.Name != "" && len(want[c]) < 10 {
				want[c] = append(want[c], v1alpha1.CustomizerError{
					Object: o.Identity.String(), Location: string(p.Location), Rule: 3, Reason: "RuleFailed", Message: err.Error(),
				})
			}
		}
		return true
	})
	for _, s := range testSpaces {
		for _, name := range []string{"c1", "c2"} {
			c := CustomizerIn(s, name)
			if got := m.shownErrors[c]; !reflect.DeepEqual(got, want[c]) {
				t.Fatalf("%v:\n got %+v\nwant %+v", c, got, want[c])
			}
		}
	}
}

func unassignedIn(t *rapid.T, tracker *Tracker, s key.Space) []Unassigned {
	all, err := tracker.Unassigned(t.Context(), string(s)+"/")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkDue compares the totals of due pairs with a recomputation.
func (m *machine) checkDue(t *rapid.T) {
	due, pairs, unswept := map[key.Placement]v1alpha1.Counts{}, map[key.Space]int{}, map[key.Space]int{}
	for _, o := range m.tracker.objects {
		pairs[o.id.Space] += o.due.size()
		if q := m.tracker.due.queues[o.id.Space]; q != nil && q.sweep.number > 0 {
			left := o.due
			if o.sweep == q.sweep.number {
				left = o.unswept
			}
			for i := range left.all() {
				if unswept[o.id.Space]++; !o.due.contains(i) {
					t.Fatalf("%s: member %d of a sweep is not due", o.path, i)
				}
			}
		}
		for i := range o.due.all() {
			for _, source := range o.as.Sources() {
				if p := source.Placement.Resolve(o.id.Space); source.Placement != "" && source.Selects(o.as.Members()[i]) {
					c := due[p]
					o.states[i].addTo(&c, 1)
					due[p] = c
				}
			}
		}
	}
	for p, sum := range m.tracker.totals.placements {
		if sum.due != due[p] {
			t.Fatalf("due of %v:\n got %+v\nwant %+v", p, sum.due, due[p])
		}
	}
	for s, q := range m.tracker.due.queues {
		if q.pairs != pairs[s] {
			t.Fatalf("%d pairs of %s are due, want %d", q.pairs, s, pairs[s])
		}
		if q.sweep.pairs != unswept[s] {
			t.Fatalf("the sweep of %s has %d pairs, want %d", s, q.sweep.pairs, unswept[s])
		}
	}
}

// checkUnassigned compares the unassigned pairs with a recomputation from all reports.
func (m *machine) checkUnassigned(t *rapid.T) {
	state := m.table.Snapshot()
	counts, pairs := map[key.Location]v1alpha1.LeftCounts{}, map[Unassigned]bool{}
	state.Ascend("r/", func(row *table.Row) bool {
		r, err := key.ParseReport(row.Key)
		if err != nil || r.Origin != key.Placed {
			return true
		}
		if o := state.Get(r.Object.Key()); o != nil && o.In != nil && o.In.(*placement.Membership).Contains(r.Location) {
			return true
		}
		c := counts[r.Location]
		if gjson.GetBytes(row.Value, "state").Str == "Orphaned" && gjson.GetBytes(row.Value, "reason").Str != "Released" {
			c.Leftovers++
		} else {
			c.Leaving++
		}
		counts[r.Location] = c
		pairs[Unassigned{r.Path(), r.Location}] = true
		return true
	})
	for _, l := range testLocations {
		if got := m.tracker.UnassignedAt(l); got != counts[l] {
			t.Fatalf("left at %s:\n got %+v\nwant %+v", l, got, counts[l])
		}
	}
	n := 0
	for _, s := range testSpaces {
		for _, l := range unassignedIn(t, m.tracker, s) {
			if n++; !pairs[l] {
				t.Fatalf("%+v is not left", l)
			}
		}
	}
	if n != len(pairs) {
		t.Fatalf("%d are left, want %d", n, len(pairs))
	}
}

// checkObjects compares the counts of every single object, also without an earlier
// request for them.
func (m *machine) checkObjects(t *rapid.T) {
	state := m.table.Snapshot()
	state.Ascend("o/", func(row *table.Row) bool {
		o, err := key.ParseObject(row.Key)
		if err != nil {
			panic(err)
		}
		var want v1alpha1.Counts
		if in, ok := row.In.(*placement.Membership); ok {
			for _, l := range in.Members() {
				m.count(state, o, row, l, &want)
			}
			for _, l := range in.Refused() {
				m.count(state, o, row, l, &want)
			}
		}
		want.Stale = 0
		if got, err := m.tracker.Object(t.Context(), o.Path()); err != nil || got != want {
			t.Fatalf("object %s:\n got %+v, %v\nwant %+v", o.Path(), got, err, want)
		}
		return true
	})
}

// TestCountsEqualRecount counts by differences through random lives and
// compares with counting anew; only what is called dirty is looked at.
func TestCountsEqualRecount(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		m := &machine{
			tracker:         New(Config{Digest: digest}),
			shownPlacements: map[key.Placement]shown{}, shownLocations: map[key.Location]v1alpha1.Counts{},
			shownErrors: map[key.Object][]v1alpha1.CustomizerError{},
		}
		m.table = table.New(table.Config{Deriver: placement.New(), Observer: m.tracker, WindowSteps: 10, WindowBytes: 1 << 20})
		for _, l := range testLocations[:2] {
			m.put(t, map[string][]byte{objectAt(key.Root, v1alpha1.Group, "locations", "", string(l)).Key(): []byte(`{"metadata":{"labels":{"k":"1"}}}`)})
		}
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0:
				m.reset(t)
			default:
				m.change(t)
			}
			if rapid.Bool().Draw(t, "check") { // several revisions are counted at once
				m.check(t)
			}
		}
		m.check(t)
	})
}
