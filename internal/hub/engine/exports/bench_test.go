package exports_test

import (
	"fmt"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// BenchmarkView is a view of 50,000 objects, which refer to as many claimed ones, that comes
// and goes: all of it is under the table's lock.
func BenchmarkView(b *testing.B) {
	w := &world{TB: b}
	w.begin()
	w.provide()
	var all []table.Update
	for i := range 50_000 {
		all = append(all, table.Update{
			Key: key.OfPath(fmt.Sprintf("c/example.com/widgets/n/w%05d", i)), CreateRev: w.rev + 1, ModRev: w.rev + 1,
			Value: fmt.Appendf(nil, `{"metadata":{"uid":"u","labels":{"class":"v%d"}},"spec":{"class":"v%d","secret":"s%d"}}`, i%1000, i%1000, i),
		})
	}
	w.apply(all...)
	for b.Loop() {
		w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
		w.remove("p/orrery.dev/apiexportviews/v")
	}
}

// BenchmarkEdit is an edit of one of these objects.
func BenchmarkEdit(b *testing.B) {
	w := &world{TB: b}
	w.begin()
	w.provide()
	w.put("p/orrery.dev/apiexportviews/v", viewBy("field", ".spec.class"))
	for i := range 10_000 {
		w.put(fmt.Sprintf("c/example.com/widgets/n/w%05d", i), widget("u", fmt.Sprintf("v%d", i%1000), fmt.Sprintf("s%d", i)))
	}
	for i := 0; b.Loop(); i++ {
		w.put(widgetW, widget("u", "v1", "s1"))
	}
}
