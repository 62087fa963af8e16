package summaries

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// flood has more objects change before each call of Work than one call looks at.
type flood struct {
	*world
	objects, next int
}

const perCall = 100

func newFlood(t *testing.T) *flood {
	t.Helper()
	f := &flood{world: newWorld(newLanguage(t)), objects: 10 * perCall}
	f.index.budget = perCall / 2 * costOfLook
	f.now = time.Unix(1_000_000, 0)
	updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`)}
	for i := range f.objects {
		k, value := placed(i, "x")
		updates[k] = value
	}
	o, spec := summaryOf(v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	updates[o.Key()] = spec
	f.put(t, updates)
	f.workAll()
	return f
}

// step has objects change, and a second pass.
func (f *flood) step(t *testing.T) {
	t.Helper()
	updates := map[string][]byte{}
	for range perCall {
		k, value := placed(f.next%f.objects, fmt.Sprint(f.next))
		updates[k] = value
		f.next++
	}
	f.put(t, updates)
	f.now = f.now.Add(time.Second)
	f.work()
}

// TestNewSummariesAreCounted: changes that never end hold up no new Summary of their space, nor does a
// Summary that has much to count hold up one that has little.
func TestNewSummariesAreCounted(t *testing.T) {
	f := newFlood(t)
	few := objectIn("s1", key.Summaries, "", "few")
	many, spec := summaryOf(v1alpha1.SummarySpec{GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "o", Expression: "object.spec"}}, Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	many.Name = "a-lot"
	f.put(t, map[string][]byte{
		many.Key(): spec,
		few.Key(): mustJSON(map[string]any{"metadata": map[string]any{"generation": 1}, "spec": v1alpha1.SummarySpec{
			Match: []v1alpha1.ObjectTest{{APIGroup: new("apps"), Resources: []string{"deployments"}, Namespaces: []string{"none"}}}, Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}},
		}}),
	})
	first := map[string]int{}
	for calls := 1; len(first) < 2; calls++ {
		if calls > 20*f.objects/perCall {
			t.Fatalf("after %d calls of Work there are %v", calls, first)
		}
		f.step(t)
		for _, o := range []key.Object{few, many} {
			if strings.Contains(f.shown[o], `"rows"`) && first[o.Name] == 0 {
				first[o.Name] = calls
			}
		}
	}
	if first["few"] > 2 {
		t.Errorf("the one that has little to count came after %d calls of Work", first["few"])
	}
}

// TestLateIsShown: a Summary whose changes wait shows since when, and that it is not complete, until they
// are counted. So does one that is counted for the first time for long.
func TestLateIsShown(t *testing.T) {
	f := newFlood(t)
	o := objectIn("s1", key.Summaries, "", "x")
	if got := f.shown[o]; strings.Contains(got, "asOf") || !strings.HasSuffix(got, " Counted") {
		t.Fatalf("at rest it shows %s", got)
	}
	began := f.now
	for range 2 * lateAfter / time.Second {
		f.step(t)
	}
	st := v1alpha1.SummaryStatus{}
	if s, _ := f.index.Show(o, &st); s.Complete.Reason != "Counting" || st.AsOf == nil || st.AsOf.Time.Before(began) || f.now.Sub(st.AsOf.Time) < lateAfter {
		t.Errorf("%s after a flood began it shows %s", f.now.Sub(began), shown(f.index, o))
	}
	if !strings.Contains(f.shown[o], `"asOf"`) {
		t.Errorf("it was last shown as %s", f.shown[o])
	}
	other, spec := summaryOf(v1alpha1.SummarySpec{Filter: costly, Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	other.Name = "new"
	f.put(t, map[string][]byte{other.Key(): spec})
	f.index.budget = costOfLook
	for range lateAfter/time.Second + 2 {
		f.step(t)
	}
	if got := f.shown[other]; !strings.HasSuffix(got, " Counting") || strings.Contains(got, "rows") {
		t.Errorf("a Summary that is counted for long shows %s", got)
	}
	f.index.budget = budget
	f.workAll()
	for _, o := range []key.Object{o, other} {
		if got := f.shown[o]; strings.Contains(got, "asOf") || !strings.HasSuffix(got, " Counted") {
			t.Errorf("%s: once all is counted it shows %s", o, got)
		}
	}
}

// TestAsOfIsNotTooNew: a Summary that is late shows a time before the first change that it has not counted,
// also if the call of Work that took that change came later.
func TestAsOfIsNotTooNew(t *testing.T) {
	f := newFlood(t)
	changed := f.now
	updates := map[string][]byte{}
	for i := range f.objects {
		k, value := placed(i, "changed")
		updates[k] = value
	}
	f.put(t, updates)
	f.now = f.now.Add(3 * lateAfter)
	for more := true; more; {
		more = f.work()
		st := v1alpha1.SummaryStatus{}
		if f.index.Show(objectIn("s1", key.Summaries, "", "x"), &st); more && (st.AsOf == nil || st.AsOf.After(changed)) {
			t.Fatalf("it shows a state as of %s, and has not counted all changes of %s", st.AsOf, changed)
		}
	}
}

// TestMovingObject: an object whose assignment changes with each call of Work, and that one call cannot
// count, is counted with bounded work for each of the changes that it comes to, and others have their turn.
// In the end it is counted where it is.
func TestMovingObject(t *testing.T) {
	w, object, _ := manyAtMany(t)
	w.workAll()
	w.index.budget = 20 * costOfLook
	movedBy := func(rest int) []byte {
		var names []string
		for i := range many {
			if i%3 != rest {
				names = append(names, fmt.Sprintf("l%02d", i))
			}
		}
		return mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: string(mustJSON(names))}}})
	}
	other := objectIn("s1", apps, "n", "2").Key()
	r, seen := seeds.Rand(t, 1), false
	w.put(t, map[string][]byte{object: movedBy(0)})
	w.work()
	w.put(t, map[string][]byte{other: mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: `["l00"]`}}})})
	for calls := 0; !seen; calls++ {
		if calls > 4*many*many {
			t.Fatalf("another object is not counted after %d calls of Work", calls)
		}
		w.put(t, map[string][]byte{object: movedBy(r.IntN(3))})
		w.work()
		_, waits := w.index.spaces["s1"].placed[otherPath(t, other)]
		seen = waits
	}
	for range 50 {
		w.put(t, map[string][]byte{object: movedBy(r.IntN(3))})
		w.work()
	}
	for _, c := range []struct {
		value []byte
		want  int
	}{{movedBy(1), many*2/3 + 1}, {nil, 1}} {
		w.put(t, map[string][]byte{object: c.value})
		w.workAll()
		if got := w.shown[objectIn("s1", key.Summaries, "", "7")]; !strings.Contains(got, fmt.Sprintf(`"counted":%d,`, c.want)) {
			t.Errorf("it shows %s, want %d", got, c.want)
		}
	}
	w.put(t, map[string][]byte{other: nil})
	w.workAll()
	if w.index.Bytes() != 0 {
		t.Errorf("of no object %d bytes are held", w.index.Bytes())
	}
}

func otherPath(t *testing.T, k string) string {
	t.Helper()
	o, err := key.ParseObject(k)
	if err != nil {
		t.Fatal(err)
	}
	return o.Path()
}

// TestLateIsWrittenSeldom: the more Summaries a space has, the less often each of them is written because the
// space is late, and what they show is not too new.
func TestLateIsWrittenSeldom(t *testing.T) {
	const summaries, seconds = 100, 200
	f := newFlood(t)
	updates := map[string][]byte{}
	for i := range summaries - 1 {
		k := objectIn("s1", key.Summaries, "", fmt.Sprint("none", i)).Key()
		updates[k] = mustJSON(map[string]any{"metadata": map[string]any{"generation": 1}, "spec": v1alpha1.SummarySpec{
			Match:   []v1alpha1.ObjectTest{{Resources: []string{"jobs"}}},
			Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}},
		}})
	}
	f.put(t, updates)
	f.workAll()
	began, writes, previous := f.now, 0, map[key.Object]string{}
	for range seconds {
		clear(f.shown)
		f.step(t)
		for o, shows := range f.shown {
			if o.Name == "x" { // which counts
				continue
			}
			if writes++; shows == previous[o] {
				t.Errorf("%s is written as it was: %s", o.Name, shows)
			}
			previous[o] = shows
		}
		st := v1alpha1.SummaryStatus{}
		f.index.Show(objectIn("s1", key.Summaries, "", "none0"), &st)
		if oldest := f.index.spaces["s1"].oldest(); st.AsOf != nil && !oldest.IsZero() && st.AsOf.After(oldest) {
			t.Fatalf("it shows a state as of %s, and a change of %s waits", st.AsOf, oldest)
		}
	}
	if most := int(f.now.Sub(began)/latePerSummary) + summaries; writes == 0 || writes > most {
		t.Errorf("%d Summaries are written %d times in %d seconds, want %d at most, and once each", summaries, writes, seconds, most)
	}
	f.workAll()
	if got := f.shown[objectIn("s1", key.Summaries, "", "none0")]; strings.Contains(got, "asOf") {
		t.Errorf("once all is counted it shows %s", got)
	}
}

// TestMovedObjectsAreChargedToTheirSummary: an object that has moved when a new Summary comes to it is counted
// for all Summaries, and counts as work of the new one: changes get their share of the turns all the same.
func TestMovedObjectsAreChargedToTheirSummary(t *testing.T) {
	f := newFlood(t)
	updates := map[string][]byte{key.Location("b").Key(): []byte(`{}`)}
	for i := range f.objects {
		k, _ := placed(i, "x")
		updates[k] = mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: `["a","b"]`}}})
	}
	other, spec := summaryOf(v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	other.Name = "new"
	updates[other.Key()] = spec
	f.put(t, updates)
	const calls = 8
	for range calls {
		f.work()
	}
	s := f.index.spaces["s1"]
	changes, first := f.objects-len(s.todo.keys), len(s.placed)
	for path := range s.placed {
		if len(s.placed[path].Members()) == 1 {
			first--
		}
	}
	if first -= changes; changes < 20 || first < 20 {
		t.Errorf("of %d objects that have moved %d were counted as changes and %d for the new Summary", f.objects, changes, first)
	}
	f.workAll()
}

// TestLateAgainIsShown: a space that was late, caught up, and is late again shows it.
func TestLateAgainIsShown(t *testing.T) {
	const summaries = 300
	f := newFlood(t)
	updates := map[string][]byte{}
	for i := range summaries - 1 {
		k := objectIn("s1", key.Summaries, "", fmt.Sprint("none", i)).Key()
		updates[k] = mustJSON(map[string]any{"metadata": map[string]any{"generation": 1}, "spec": v1alpha1.SummarySpec{
			Match:   []v1alpha1.ObjectTest{{Resources: []string{"jobs"}}},
			Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}},
		}})
	}
	f.put(t, updates)
	f.workAll()
	x := objectIn("s1", key.Summaries, "", "x")
	for range 2 * lateAfter / time.Second {
		f.step(t)
	}
	if got := f.shown[x]; !strings.Contains(got, "asOf") {
		t.Fatalf("not late at first: %s", got)
	}
	f.workAll()
	for range 10 * lateAfter / time.Second {
		f.step(t)
	}
	oldest := f.index.spaces["s1"].oldest()
	if got := shown(f.index, x); !strings.Contains(got, "asOf") {
		t.Errorf("a change waits for %s, and it shows %s", f.now.Sub(oldest), got)
	}
}
