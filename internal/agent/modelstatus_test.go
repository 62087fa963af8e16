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
		expectSettled := func(what string) {
			t.Helper()
			if err := w.awaitSettled(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const returnStatus, status = 16, 9
		id := identities[8]
		w.edit(id, returnStatus, 1)
		expectSettled("placed")
		for _, c := range []int{2, 3, 7} { // a status; none and another one, twice
			w.tamper(id, status, c)
		}
		expectSettled("its status has changed")
		w.start(w.stop(false))
		expectSettled("killed")
	})
}

// TestModelStatusMissed has an object's status change while nothing can be written to
// the disk, and then not any more: it is reported once there is room again.
func TestModelStatusMissed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		expectSettled := func(what string) {
			t.Helper()
			if err := w.awaitSettled(false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		const returnStatus, status = 16, 9
		id := identities[8]
		w.edit(id, returnStatus, 1)
		expectSettled("placed")
		w.tamper(id, status, 2)
		expectSettled("it has a status")
		w.fill(true)
		w.tamper(id, status, 7)
		expectSettled("its status has changed")
		if w.agent.store.Failing() == nil {
			t.Fatal("the disk is not full")
		}
		w.heal()
		expectSettled("there is room again")
	})
}

// TestModelHealth checks that health is reported whether or not the policy returns the status. A
// change of a status that is not returned is not stored unless it changes the health. The status
// is reported once the policy returns it, even without a change at the cluster.
func TestModelHealth(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer func() { w.stop(true) }()
		const none, returnStatus, status = 8, 16, 9 // the objects are equal
		id := identities[8]
		expectSettled := func(what string, want wire.Health) {
			t.Helper()
			if err := w.awaitSettled(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if r := w.reportsOf()[w.spaceKeys(id)[0]]; r.Health != want {
				t.Fatalf("%s: the report has it as %s, want %s", what, r.Health, want)
			}
		}
		w.edit(id, none, 1)
		expectSettled("placed", wire.Healthy)
		for c, want := range seeds.Ordered(map[int]wire.Health{1: wire.Progressing, 2: wire.Degraded, 5: wire.Progressing}) {
			w.tamper(id, status, c)
			expectSettled("its health has changed", want)
		}
		w.tamper(id, status, 0)
		expectSettled("healthy", wire.Healthy)
		before := w.agent.store.Meta().Written
		w.tamper(id, status, 8)
		expectSettled("its status has changed", wire.Healthy)
		if w.agent.store.Meta().Written != before {
			t.Error("a status that nobody asks for was written")
		}
		w.edit(id, returnStatus, 1) // the model's oracle wants the status from here on
		expectSettled("its status is asked for", wire.Healthy)
	})
}
