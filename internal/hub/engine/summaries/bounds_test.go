package summaries

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

func placed(i int, spec string) (k string, value []byte) {
	return objectIn("s1", apps, "n", fmt.Sprintf("%06d", i)).Key(), mustJSON(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: `["a"]`}}, "spec": spec,
	})
}

func summaryOf(spec v1alpha1.SummarySpec) (key.Object, []byte) {
	spec.Match = []v1alpha1.ObjectTest{{Resources: []string{"deployments"}}}
	return objectIn("s1", key.Summaries, "", "x"), mustJSON(map[string]any{"metadata": map[string]any{"generation": 1}, "spec": spec})
}

// TestGivenUp: a Summary that would hold more than it may says so and holds nothing, and is
// counted again a while after what it matches has become less.
func TestGivenUp(t *testing.T) {
	w := newWorld(newLanguage(t))
	const objects = 17_000 // of a KiB each
	updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`)}
	for i := range objects {
		k, value := placed(i, strings.Repeat("x", 1000))
		updates[k] = value
	}
	o, spec := summaryOf(v1alpha1.SummarySpec{Select: []v1alpha1.SummaryColumnExpression{{Name: "s", Expression: "object.spec"}}})
	updates[o.Key()] = spec
	w.put(t, updates)
	w.workAll()
	if !strings.HasSuffix(w.shown[o], " TooLarge") || strings.Contains(w.shown[o], "rows") || w.index.Bytes() != 0 {
		t.Fatalf("it shows %.200s and holds %d bytes", w.shown[o], w.index.Bytes())
	}
	less := map[string][]byte{}
	for i := range objects - 10 {
		k, _ := placed(i, "")
		less[k] = nil
	}
	w.put(t, less)
	w.workAll()
	if w.index.Bytes() != 0 {
		t.Error("it was counted again at once")
	}
	w.now = w.now.Add(tryAgain)
	w.workAll()
	if !strings.Contains(w.shown[o], `"total":10`) || !strings.HasSuffix(w.shown[o], " Counted") {
		t.Errorf("it shows %.200s", w.shown[o])
	}
}

// TestWorkIsBounded: expressions that cost much don't hold up other spaces: a little is done
// of each, and nothing is shown of what has not been counted yet.
func TestWorkIsBounded(t *testing.T) {
	w := newWorld(newLanguage(t))
	updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`)}
	for i := range 1000 {
		k, value := placed(i, "x")
		updates[k] = value
	}
	o, spec := summaryOf(v1alpha1.SummarySpec{Filter: "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c > 0)))", Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	updates[o.Key()] = spec
	other := objectIn("s2", key.Summaries, "", "x")
	updates[other.Key()] = spec
	w.put(t, updates)
	dirty, more := w.index.Work(w.table.Snapshot, w.now)
	if !more || len(dirty) != 1 || dirty[0] != other || shown(w.index, o) != "nothing" || !strings.Contains(shown(w.index, other), `[[0]]`) {
		t.Fatalf("more %v, dirty %v, %s, %s", more, dirty, shown(w.index, o), shown(w.index, other))
	}
	w.workAll()
	if !strings.Contains(w.shown[o], `[[1000]]`) {
		t.Errorf("it shows %s", w.shown[o])
	}
}

// BenchmarkReport is what a report costs that 100 Summaries count.
func BenchmarkReport(b *testing.B) {
	for _, summaries := range []int{0, 1, 100} {
		b.Run(fmt.Sprint(summaries), func(b *testing.B) {
			w := newWorld(newLanguage(b))
			updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`)}
			for i := range 1000 {
				k, value := placed(i, strings.Repeat("x", 1000))
				updates[k] = value
			}
			for i := range summaries {
				_, spec := summaryOf(v1alpha1.SummarySpec{
					GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "state", Expression: "sync.state"}, {Name: "at", Expression: fmt.Sprint("location.name + '", i, "'")}},
					Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}, {Name: "x", Type: "SUM", Expression: "status.?x"}},
				})
				updates[objectIn("s1", key.Summaries, "", fmt.Sprint(i)).Key()] = spec
			}
			w.put(b, updates)
			w.workAll()
			if summaries > 0 {
				b.ReportMetric(float64(w.index.Bytes())/float64(summaries)/1000, "B/pair")
			}
			i := 0
			for b.Loop() {
				o, _ := key.ParseObject(objectIn("s1", apps, "n", fmt.Sprintf("%06d", i%1000)).Key())
				w.put(b, map[string][]byte{key.Report{Location: "a", Origin: key.Placed, Object: o}.Key(): fmt.Appendf(nil, `{"uid":"","state":"Applied","status":{"x":%d}}`, i)})
				w.index.Work(w.table.Snapshot, w.now)
				i++
			}
		})
	}
}

// costly is a filter that costs nearly as much as one may for one object at one location.
const costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, a + b + c > 0)))"

// many is how many locations and Summaries a space of manyAtMany has.
const many = 20

// manyAtMany is a space whose object is at many locations, with as many Summaries of a costly filter each.
func manyAtMany(t *testing.T) (w *world, object string, value []byte) {
	t.Helper()
	w = newWorld(newLanguage(t))
	updates, names := map[string][]byte{}, []string{}
	for i := range many {
		l := key.Location(fmt.Sprintf("l%02d", i))
		names = append(names, string(l))
		updates[l.Key()] = []byte(`{}`)
		_, spec := summaryOf(v1alpha1.SummarySpec{Filter: fmt.Sprintf("%d > 0 || %s", -i, costly), Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
		updates[objectIn("s1", key.Summaries, "", fmt.Sprint(i)).Key()] = spec
	}
	object = objectIn("s1", apps, "n", "1").Key()
	value = mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: string(mustJSON(names))}}})
	updates[object] = value
	w.put(t, updates)
	return w, object, value
}

// TestOneObjectIsBounded: what one write of one object takes of Summaries, 400 evaluations here, is done in
// parts. Another space is counted meanwhile.
func TestOneObjectIsBounded(t *testing.T) {
	w, object, value := manyAtMany(t)
	locations := 0
	w.index.config.Digest = func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		locations++
		return digest(e, c)
	}
	w.workAll()
	if got := w.shown[objectIn("s1", key.Summaries, "", "7")]; !strings.Contains(got, fmt.Sprintf(`"counted":%d`, many)) {
		t.Fatalf("it shows %s", got)
	}
	other := objectIn("s2", key.Summaries, "", "x")
	_, spec := summaryOf(v1alpha1.SummarySpec{Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	locations = 0
	w.put(t, map[string][]byte{object: append(value, ' '), other.Key(): spec})
	more := w.work()
	if !more || locations == 0 || locations > many/2 {
		t.Errorf("a call of Work looked at %d locations, and has more to do: %v", locations, more)
	}
	if !strings.Contains(w.shown[other], `[[0]]`) {
		t.Errorf("another space shows %s", w.shown[other])
	}
	w.workAll()
	if locations < many {
		t.Errorf("%d of %d locations were looked at again", locations, many)
	}
}

// TestChangeMeanwhile: an object that changes while it is looked at in parts is counted as it is in the
// end, at the locations that it then has.
func TestChangeMeanwhile(t *testing.T) {
	w, object, _ := manyAtMany(t)
	w.work()
	fewer := mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AssignedLocationsAnnotation: `["l01","l02"]`}}})
	w.put(t, map[string][]byte{object: fewer})
	w.workAll()
	if got := w.shown[objectIn("s1", key.Summaries, "", "7")]; !strings.Contains(got, `"counted":2,`) {
		t.Errorf("it shows %s", got)
	}
	w.put(t, map[string][]byte{object: nil})
	w.work()
	w.workAll()
	if got := w.shown[objectIn("s1", key.Summaries, "", "7")]; !strings.Contains(got, `"counted":0,`) || w.index.Bytes() != 0 {
		t.Errorf("it shows %s and holds %d bytes", got, w.index.Bytes())
	}
}

// TestReadersDoNotWait: what was counted last is shown while an object is rendered and evaluated.
func TestReadersDoNotWait(t *testing.T) {
	w, object, value := manyAtMany(t)
	w.workAll()
	o, read := objectIn("s1", key.Summaries, "", "7"), make(chan string)
	w.index.config.Digest = func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		go func() {
			w.index.Bytes()
			read <- shown(w.index, o)
		}()
		select {
		case got := <-read:
			if !strings.Contains(got, fmt.Sprintf(`"counted":%d`, many)) {
				t.Errorf("meanwhile it shows %s", got)
			}
		case <-limit.Context(t, "a Summary is shown while an object is rendered").Done():
			t.Fatal("a reader waits for an evaluation")
		}
		return digest(e, c)
	}
	w.put(t, map[string][]byte{object: append(value, ' ')})
	w.work()
}

// TestManySpacesShare: the more spaces have something to do, the less is done of each in one call of Work,
// and something is done of each.
func TestManySpacesShare(t *testing.T) {
	w := newWorld(newLanguage(t))
	const spaces, objects = 50, 70
	updates := map[string][]byte{key.Location("a").Key(): []byte(`{}`)}
	_, spec := summaryOf(v1alpha1.SummarySpec{Filter: costly, Combine: []v1alpha1.SummaryCombine{{Name: "n", Type: "COUNT"}}})
	_, value := placed(0, "x")
	seen := map[string]int{}
	for i := range spaces {
		s := key.Space(fmt.Sprint("t", i))
		updates[objectIn(s, key.Summaries, "", "x").Key()] = spec
		for j := range objects {
			updates[objectIn(s, apps, "n", fmt.Sprint(i, "-", j)).Key()] = value
		}
	}
	w.index.config.Digest = func(e *table.Entry, c *placement.Class) (wire.Sum, error) {
		s, _, _, _ := key.Split(e.Key)
		seen[string(s)]++
		return digest(e, c)
	}
	w.put(t, updates)
	if more := w.work(); !more || len(seen) != spaces {
		t.Errorf("of %d spaces %d were looked at, and there is more to do: %v", spaces, len(seen), more)
	}
	all := 0
	for _, n := range seen {
		all += n
	}
	if all > spaces*objects*2/3 {
		t.Errorf("%d of %d objects were looked at in one call of Work", all, spaces*objects)
	}
}

// TestLargeRemovalEnds: an object that is counted at more locations than a call of Work has a budget for is
// forgotten in as many calls as it takes, when it is deleted.
func TestLargeRemovalEnds(t *testing.T) {
	w, object, _ := manyAtMany(t)
	w.workAll()
	w.index.budget = 150
	w.put(t, map[string][]byte{object: nil})
	calls := 1
	for ; w.work(); calls++ {
		if calls > 2*many*many {
			t.Fatalf("%d calls of Work have not forgotten one object at %d locations", calls, many)
		}
	}
	if got := w.shown[objectIn("s1", key.Summaries, "", "7")]; calls < many || !strings.Contains(got, `"counted":0,`) {
		t.Errorf("after %d calls it shows %s", calls, got)
	}
}
