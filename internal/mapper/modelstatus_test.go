package mapper

import (
	"testing"
	"testing/synctest"
)

// TestModelStatus removes and sets an object's status faster than the store commits, and
// kills the agent: its store is consistent.
func TestModelStatus(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		settled := func(what string) {
			t.Helper()
			if err := w.settle(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const returnStatus, status = 16, 9
		id := identities[2]
		w.edit(id, returnStatus, 1)
		settled("placed")
		for _, c := range []int{2, 3, 7} { // a status; none and another one, twice
			w.tamper(id, status, c)
		}
		settled("its status has changed")
		w.start(w.stop(false))
		settled("killed")
	})
}

// TestModelStatusMissed has an object's status change while nothing can be written to
// the disk, and then not any more: it is reported once there is room again.
func TestModelStatusMissed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		settled := func(what string) {
			t.Helper()
			if err := w.settle(false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const returnStatus, status = 16, 9
		id := identities[2]
		w.edit(id, returnStatus, 1)
		settled("placed")
		w.tamper(id, status, 2)
		settled("it has a status")
		w.fill(true)
		w.tamper(id, status, 7)
		settled("its status has changed")
		if w.agent.store.Failing() == nil {
			t.Fatal("the disk is not full")
		}
		w.heal()
		settled("there is room again")
	})
}
