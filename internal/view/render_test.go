package view

import (
	"runtime"
	"testing"
	"unsafe"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds/travel"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

func rowOf(o sample) *table.Row {
	return &table.Row{Entry: table.NewEntry(o.key(), o.value(), 1, 1)}
}

func TestRenderedBytesAreSharedWhileInUse(t *testing.T) {
	k, row := known()[configMaps], rowOf(cm("a", "x", "1"))
	text := func() string {
		first, err := Render(k, row, "l1")
		if err != nil {
			t.Fatal(err)
		}
		again, err := Render(k, row, "l2")
		if err != nil {
			t.Fatal(err)
		}
		if unsafe.SliceData(first.Object) != unsafe.SliceData(again.Object) || len(first.Object) != len(again.Object) {
			t.Error("rendered twice")
		}
		if want := wire.SumOf(first.Object); first.Digest != want || again.Digest != want {
			t.Error("digest is not that of the bytes")
		}
		runtime.KeepAlive(first.Object)
		return string(again.Object)
	}()
	runtime.GC()
	if known, ok := remembered(row); !ok || known.first.Value() != nil {
		t.Error("bytes are kept for nobody")
	}
	later, err := Render(k, row, "l1")
	if err != nil || string(later.Object) != text || later.Digest != wire.SumOf([]byte(text)) {
		t.Errorf("rendered anew: %s %v", later.Object, err)
	}
}

// TestAllVersionsTravelAlike: what views show and what agents compare is one thing.
func TestAllVersionsTravelAlike(t *testing.T) {
	var sums []wire.Sum
	for _, by := range []Traveller{known()[widgetsV1], known()[widgetsV2], travel.Custom("example.com")} {
		row := rowOf(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w"})
		sum, err := Digest(by, row, "l1")
		if err != nil {
			t.Fatal(err)
		}
		if sums = append(sums, sum); sum != sums[0] {
			t.Errorf("%s and %s", sum, sums[0])
		}
	}
}

func TestHolds(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1", "at=l1"), cm("b", "x", "2", "at=l1.l2"))
	held := sample{gvr: namespaces, space: "a", name: "held", labels: map[string]string{"at": "l1.l2", "hold": "why"}}
	f.put(held)
	if row, _ := f.table.Get(held.key()); Holds(row, "l1") {
		t.Error("l1 holds an object that is held back")
	}
	for space, want := range map[key.Space]bool{"a": true, "b": false} {
		if row, _ := f.table.Get(cm(space, "x", "").key()); Holds(row, "l1") != want {
			t.Errorf("l1 holds the object of %s: %v", space, !want)
		}
	}
}
