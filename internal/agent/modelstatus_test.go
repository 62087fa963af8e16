package agent

import (
	"testing"
	"testing/synctest"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
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
		id := identities[8]
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
		id := identities[8]
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

// TestModelHealth: health is reported whether or not the status is asked for. A change of a
// status that nobody asks for is not even written if it changes nothing of the health, and
// the status comes once it is asked for, though nothing happens at the cluster.
func TestModelHealth(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		const none, returnStatus, status = 8, 16, 9 // the objects are equal
		id := identities[8]
		settled := func(what string, want wire.Health) {
			t.Helper()
			if err := w.settle(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if r := w.reportsOf()[w.spaceKeys(id)[0]]; r.Health != want {
				t.Fatalf("%s: the report has it as %s, want %s", what, r.Health, want)
			}
		}
		w.edit(id, none, 1)
		settled("placed", wire.Healthy)
		for c, want := range seeds.Ordered(map[int]wire.Health{1: wire.Progressing, 2: wire.Degraded, 5: wire.Progressing}) {
			w.tamper(id, status, c)
			settled("its health has changed", want)
		}
		w.tamper(id, status, 0)
		settled("healthy", wire.Healthy)
		before := w.agent.store.Meta().Written
		w.tamper(id, status, 8)
		settled("its status has changed", wire.Healthy)
		if w.agent.store.Meta().Written != before {
			t.Error("a status that nobody asks for was written")
		}
		w.edit(id, returnStatus, 1) // the model's oracle wants the status from here on
		settled("its status is asked for", wire.Healthy)
	})
}
