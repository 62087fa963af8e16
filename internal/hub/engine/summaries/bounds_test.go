package summaries

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
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
	w.settle()
	if !strings.HasSuffix(w.shown[o], " TooLarge") || strings.Contains(w.shown[o], "rows") || w.index.Bytes() != 0 {
		t.Fatalf("it shows %.200s and holds %d bytes", w.shown[o], w.index.Bytes())
	}
	less := map[string][]byte{}
	for i := range objects - 10 {
		k, _ := placed(i, "")
		less[k] = nil
	}
	w.put(t, less)
	w.settle()
	if w.index.Bytes() != 0 {
		t.Error("it was counted again at once")
	}
	w.now = w.now.Add(tryAgain)
	w.settle()
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
	w.settle()
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
			w.settle()
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
