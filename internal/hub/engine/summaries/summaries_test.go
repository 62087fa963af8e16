package summaries

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

func digest(e *table.Entry, _ *placement.Class) (wire.Sum, error) {
	return wire.SumOf([]byte(fmt.Sprint(e.Meta.Generation))), nil
}

func newLanguage(t testing.TB) *aggregate.Language {
	t.Helper()
	l, err := aggregate.New()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func objectIn(s key.Space, r key.Resource, namespace, name string) key.Object {
	return key.Object{Space: s, Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}}
}

// world is a log with an Index.
type world struct {
	table *table.Writer
	index *Index
	rev   int64
	now   time.Time
	// shown is what a hub has written, by what was dirty.
	shown map[key.Object]string
}

func newWorld(l *aggregate.Language) *world {
	w := &world{shown: map[key.Object]string{}}
	w.index = New(Config{Digest: digest, Language: l, Now: func() time.Time { return w.now }})
	w.table = table.New(table.Config{Deriver: placement.New(), Observer: w.index, WindowSteps: 10, WindowBytes: 1 << 20})
	return w
}

func (w *world) put(t interface{ Fatal(...any) }, updates map[string][]byte) {
	w.rev++
	var all []table.Update
	for _, k := range slices.Sorted(maps.Keys(updates)) {
		all = append(all, table.Update{Key: k, Value: updates[k], CreateRev: 1, ModRev: w.rev})
	}
	if err := w.table.Apply(w.rev, all); err != nil {
		t.Fatal(err)
	}
}

// reload has the whole log read again.
func (w *world) reload() {
	w.rev++
	w.table.Reset(w.rev, w.all())
}

func (w *world) all() (all []table.Update) {
	snap := w.table.Snapshot()
	for _, prefix := range []string{"o/", "r/"} {
		snap.Ascend(prefix, func(r *table.Row) bool {
			all = append(all, table.Update{Key: r.Key, Value: r.Value, CreateRev: r.CreateRev, ModRev: r.ModRev})
			return true
		})
	}
	return all
}

// workAll has an Index do all of its work, and records the results.
func (w *world) workAll() {
	for w.work() {
	}
}

// work has an Index do some of that; more reports that there is more.
func (w *world) work() (more bool) {
	dirty, more := w.index.Work(w.table.Snapshot, w.now)
	for _, o := range dirty {
		w.shown[o] = shown(w.index, o)
	}
	return more
}

func shown(x *Index, o key.Object) string {
	var st v1alpha1.SummaryStatus
	s, ok := x.Show(o, &st)
	if !ok {
		return "nothing"
	}
	return fmt.Sprintf("%s %v %s", mustJSON(st), s.Problems, s.Complete.Reason)
}

var (
	testSpaces    = []key.Space{"s1", "s2"}
	testLocations = []key.Location{"a", "b", "c"}
	apps          = key.Resource{Group: "apps", Resource: "deployments"}
)

func drawObject(t *rapid.T) key.Object {
	r := rapid.SampledFrom([]key.Resource{apps, key.ConfigMaps}).Draw(t, "resource")
	return objectIn(rapid.SampledFrom(testSpaces).Draw(t, "space"), r, rapid.SampledFrom([]string{"n", "m"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "name"))
}

// drawSummary is the spec of a Summary.
func drawSummary(t *rapid.T) v1alpha1.SummarySpec {
	one := func(name string, e ...string) []v1alpha1.SummaryColumnExpression {
		var all []v1alpha1.SummaryColumnExpression
		for i, e := range e {
			all = append(all, v1alpha1.SummaryColumnExpression{Name: fmt.Sprint(name, i), Expression: e})
		}
		return all
	}
	spec := v1alpha1.SummarySpec{
		From: rapid.SampledFrom([]v1alpha1.SummarySource{"Downsynced", "", "Upsynced", "Associated"}).Draw(t, "from"),
		Match: rapid.SampledFrom([][]v1alpha1.ObjectTest{
			{{Resources: []string{"deployments"}}}, {{LabelSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"k": "1"}}}}}, {{APIGroup: new("apps")}, {Namespaces: []string{"n"}}},
			{{NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"k": "1"}}}}}, {{APIGroup: new(""), Resources: []string{"configmaps"}, Names: []string{"1"}}},
		}).Draw(t, "match"),
		Filter: rapid.SampledFrom([]string{"", "", "sync.applied", "status.x > 0", "location.labels.k == '1'", "!sync.stale", "object.spec != 'x'"}).Draw(t, "filter"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		spec.Select = one("c", "object.metadata.name", "location.name", "sync.state", "sync.error", "status")
	case 1:
		spec.GroupBy = one("g", rapid.SampledFrom([]string{"sync.state", "location.properties.p", "object.metadata.labels.k", "sync.health"}).Draw(t, "group"))
		fallthrough
	case 2:
		spec.Combine = []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}, {Name: "x", Type: "SUM", Expression: "status.?x"}, {Name: "max", Type: "MAX", Expression: "status.?x"}, {Name: "g", Type: "MIN", Expression: "sync.generation"}}
	case 3:
		spec.Select = one("c", "nonsense")
	}
	return spec
}

func drawChange(t *rapid.T, rev int64) (k string, value []byte) {
	label := func() map[string]string {
		return map[string]string{"k": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")}
	}
	metadata := func() map[string]any {
		return map[string]any{"uid": rapid.SampledFrom([]string{"u1", "u1", "u2"}).Draw(t, "uid"), "labels": label(), "generation": rapid.IntRange(1, 2).Draw(t, "generation"), "name": "x"}
	}
	s := rapid.SampledFrom(testSpaces).Draw(t, "of")
	switch kind := rapid.SampledFrom([]string{"summary", "summary", "location", "namespace", "placement", "object", "object", "report", "report", "report", "born"}).Draw(t, "kind"); kind {
	case "summary":
		k = objectIn(s, key.Summaries, "", rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "summary")).Key()
		m := metadata()
		if rapid.IntRange(0, 5).Draw(t, "below") == 0 {
			m["labels"] = map[string]string{v1alpha1.ForLabel: v1alpha1.ForBelow}
		}
		value = mustJSON(map[string]any{"metadata": m, "spec": drawSummary(t)})
	case "location":
		k = rapid.SampledFrom(testLocations).Draw(t, "location").Key()
		status := map[string]any{"conditions": []any{map[string]any{"type": "Connected", "status": rapid.SampledFrom([]string{"True", "False"}).Draw(t, "connected")}}}
		value = mustJSON(map[string]any{"metadata": metadata(), "spec": map[string]any{"properties": map[string]any{"p": rapid.IntRange(0, 1).Draw(t, "property")}}, "status": status})
	case "namespace":
		k = objectIn(s, key.Namespaces, "", rapid.SampledFrom([]string{"n", "m"}).Draw(t, "name")).Key()
		value = mustJSON(map[string]any{"metadata": metadata()})
	case "placement":
		k = objectIn(s, key.Placements, "", "p").Key()
		value = mustJSON(map[string]any{"metadata": metadata(), "spec": v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{{Selector: &metav1.LabelSelector{MatchLabels: label()}}, {Names: []string{"a"}}},
			Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{LabelSelectors: []metav1.LabelSelector{{MatchLabels: label()}, {}}[:rapid.IntRange(1, 2).Draw(t, "all")]}}},
		}})
	case "object":
		k = drawObject(t).Key()
		value = mustJSON(map[string]any{"metadata": metadata(), "spec": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "spec")})
	default:
		r := key.Report{Location: rapid.SampledFrom(testLocations).Draw(t, "by"), Origin: key.Placed, Object: drawObject(t)}
		report := wire.Report{
			UID: rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"), Generation: int64(rapid.IntRange(1, 2).Draw(t, "seen")), Since: fmt.Sprint(rev),
			State: rapid.SampledFrom([]wire.State{wire.Applied, wire.Applied, wire.Failed, wire.Held}).Draw(t, "state"), Message: "why",
			Digest: wire.SumOf([]byte("1")), Health: rapid.SampledFrom([]wire.Health{"", wire.Healthy, wire.Degraded}).Draw(t, "health"),
			Status: mustJSON(map[string]any{"x": rapid.SampledFrom([]any{1, 2, "text", 0.5}).Draw(t, "x")}),
		}
		if kind == "born" {
			r.Origin, report.State = rapid.SampledFrom([]key.Origin{key.Upsynced, key.Owned}).Draw(t, "origin"), wire.Present
			report.Object, report.Status = mustJSON(map[string]any{"metadata": metadata(), "spec": "x", "status": report.Status}), nil
		}
		k, value = r.Key(), mustJSON(report)
	}
	if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
		value = nil
	}
	return k, value
}

// TestIndexEqualsRecomputation: what a hub has written of Summaries by what was dirty, through
// any stream of objects, reports, locations, policies and Summaries, is what one that is shown
// only the end of it writes.
func TestIndexEqualsRecomputation(t *testing.T) {
	l := newLanguage(t)
	seeds.Check(t, func(t *rapid.T) {
		w := newWorld(l)
		w.index.budget = rapid.SampledFrom([]int{150, 400, budget}).Draw(t, "budget")
		w.put(t, map[string][]byte{
			objectIn("s1", key.Placements, "", "p").Key(): mustJSON(map[string]any{"spec": v1alpha1.PlacementSpec{
				Locations: []v1alpha1.LocationSelector{{Selector: &metav1.LabelSelector{}}}, Downsync: []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"*"}}}},
			}}),
			key.Location("a").Key(): []byte(`{"metadata":{"labels":{"k":"1"}}}`), key.Location("b").Key(): []byte(`{}`),
			objectIn("s1", key.Namespaces, "", "n").Key(): []byte(`{"metadata":{"labels":{"k":"1"}}}`),
		})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			updates := map[string][]byte{}
			for range rapid.SampledFrom([]int{1, 1, 2, 8}).Draw(t, "changes") {
				k, value := drawChange(t, w.rev)
				updates[k] = value
			}
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				w.reload()
			case 1, 2, 3, 4:
				w.workAll()
			case 5, 6, 7:
				w.work()
			case 8:
				w.index.Pause()
			}
			w.put(t, updates)
		}
		w.workAll()
		fresh := newWorld(l)
		fresh.table.Reset(1, w.all())
		fresh.workAll()
		for _, s := range testSpaces {
			for _, name := range []string{"x", "y", "z"} {
				o := objectIn(s, key.Summaries, "", name)
				want, got := shown(fresh.index, o), shown(w.index, o)
				if got != want {
					t.Fatalf("%s\nshows\n%s\nwant\n%s", o.Path(), got, want)
				}
				if want != "nothing" && w.shown[o] != want {
					t.Fatalf("%s\nwas written as\n%s\nwant\n%s", o.Path(), w.shown[o], want)
				}
			}
		}
		if got, want := w.index.Bytes(), fresh.index.Bytes(); got != want {
			t.Fatalf("it holds %d bytes, want %d", got, want)
		}
	})
}

// TestMadeAnew: a Summary that is gone and made again before it was looked at counts what has
// changed meanwhile, when the hub noted nothing, also of locations.
func TestMadeAnew(t *testing.T) {
	for _, other := range []bool{false, true} {
		w := newWorld(newLanguage(t))
		k, value := placed(0, "before")
		o, spec := summaryOf(v1alpha1.SummarySpec{Select: []v1alpha1.SummaryColumnExpression{{Name: "s", Expression: "object.spec"}}})
		updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`), k: value, o.Key(): spec}
		if other { // a space that has one all the time
			updates[objectIn("s2", key.Summaries, "", "x").Key()] = spec
		}
		w.put(t, updates)
		w.workAll()
		w.put(t, map[string][]byte{o.Key(): nil})
		_, value = placed(0, "after")
		stale := []byte(`{"status":{"conditions":[{"type":"Connected","status":"False"}]}}`)
		w.put(t, map[string][]byte{k: value, key.Location("a").Key(): stale})
		w.put(t, map[string][]byte{o.Key(): spec})
		w.workAll()
		if got := w.shown[o]; !strings.Contains(got, `"rows":[["after"]]`) || !strings.Contains(got, `"stale":1`) {
			t.Errorf("beside others %v it shows %s", other, got)
		}
	}
}

// TestLocationsThatMoveBefore: a location that moves while there are only Summaries that can't
// be used is not the only one that the next Summary knows.
func TestLocationsThatMoveBefore(t *testing.T) {
	w := newWorld(newLanguage(t))
	k, value := placed(0, "x")
	useless, spec := summaryOf(v1alpha1.SummarySpec{Filter: "no expression"})
	stale := []byte(`{"status":{"conditions":[{"type":"Connected","status":"False"}]}}`)
	w.put(t, map[string][]byte{key.Location("a").Key(): stale, key.Location("b").Key(): []byte(`{}`), k: value, useless.Key(): spec})
	w.workAll()
	w.put(t, map[string][]byte{key.Location("b").Key(): []byte(`{"metadata":{"labels":{"k":"1"}}}`)})
	w.workAll()
	_, spec = summaryOf(v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	o := objectIn("s1", key.Summaries, "", "useful")
	w.put(t, map[string][]byte{o.Key(): spec})
	w.workAll()
	if got := w.shown[o]; !strings.Contains(got, `"counted":1,"stale":1`) {
		t.Errorf("it shows %s", got)
	}
}

// TestPause: an Index that does no work, as at a hub that is not elected, keeps no changes, however many there are. The
// next Work counts all anew.
func TestPause(t *testing.T) {
	w := newWorld(newLanguage(t))
	o, spec := summaryOf(v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	w.put(t, map[string][]byte{key.Location("a").Key(): []byte(`{}`), o.Key(): spec})
	const churn = 100
	for round := range 2 { // before the first Work, and after a Pause
		for i := range churn {
			k, value := placed(i, "x")
			w.put(t, map[string][]byte{k: value})
			if i > round {
				w.put(t, map[string][]byte{k: nil})
			}
		}
		if kept := w.index.inbox.news.spaces; len(kept) > 0 {
			t.Errorf("changes of %d spaces are kept before round %d", len(kept), round)
		}
		w.workAll()
		if want := fmt.Sprintf(`"rows":[[%d]]`, round+1); !strings.Contains(w.shown[o], want) {
			t.Errorf("in round %d it shows %s, want %s", round, w.shown[o], want)
		}
		w.index.Pause()
		if len(w.index.spaces) > 0 || w.index.Bytes() > 0 {
			t.Error("a paused Index keeps what it has counted")
		}
	}
}
