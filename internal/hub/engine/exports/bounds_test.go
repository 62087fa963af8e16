package exports_test

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestFollowsBoundedly: what objects of very many values refer to, or own, is in the slices of
// the first of them, so that each value more costs as much as the last.
func TestFollowsBoundedly(t *testing.T) {
	const most, more = 1024, 3
	w := newWorld(t)
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	w.put(secretS, secret(""))
	name := func(i int) string { return fmt.Sprintf("c/example.com/widgets/n/w%04d", i) }
	class := func(i int) string { return fmt.Sprintf("v%04d", i) }
	var owners []string
	for i := range most + more {
		w.put(name(i), widget("u", class(i), "s"))
		owners = append(owners, fmt.Sprintf("w%04d@u", i))
	}
	check := func(first int) {
		t.Helper()
		row, _ := w.table.Get(key.OfPath(secretS))
		isShown := func(i int) bool {
			return row.IsShownIn(key.ExportView{Space: "p", Name: "v", View: true, Value: class(i)})
		}
		if n := len(row.Exposure.ExportViews()); n != most+1 || !isShown(first) || !isShown(first+most-1) || isShown(first+most) || first > 0 && isShown(first-1) {
			t.Errorf("it is on %d shelves, want the export's and %d slices from %s on", n, most, class(first))
		}
	}
	check(0)
	w.remove(name(0))
	check(1)
	w.put(secretS, secret("", owners...))
	check(1)
}

// BenchmarkHugeTexts is a write of an object that has megabytes where a value, and a name,
// are expected.
func BenchmarkHugeTexts(b *testing.B) {
	w := &world{TB: b}
	w.begin()
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	huge := widget("u", strings.Repeat("x", 1<<19), strings.Repeat("y", 1<<19))
	for b.Loop() {
		w.put(widgetW, huge)
	}
}

// BenchmarkManyOwners is a write of a claimed object that thousands own, all of them others
// than before.
func BenchmarkManyOwners(b *testing.B) {
	w := &world{TB: b}
	w.begin()
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	for i := 0; b.Loop(); i++ {
		var owners []string
		for j := range 8000 {
			owners = append(owners, fmt.Sprintf("w%d-%d@u", i%2, j))
		}
		w.put(secretS, secret("", owners...))
	}
}
