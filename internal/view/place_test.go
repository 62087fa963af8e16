package view

import (
	"testing"

	"orrery.dev/orrery/internal/key"
)

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
