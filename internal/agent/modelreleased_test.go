package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelReleased follows one released value: it is written when the object is
// made, by two requests; it costs none when another changes it, and one more for
// each apply; an agent that dies between the two is healed by the next.
func TestModelReleased(t *testing.T) {
	const (
		rule, noRule = 29, 19 // by what edit makes of it
		two, three   = 1, 2
	)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		id, v := identities[2], fieldPath("data", "v")
		early := 0 // 1: an agent that starts may look at it once before it can do anything
		step := func(what string, value string, lent bool, requests int) {
			t.Helper()
			if err := w.awaitSettled(true); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			o := w.cluster.objects[id.String()]
			if got := o.fields[v]; got != `"`+value+`"` {
				t.Errorf("%s: the value is %s", what, got)
			}
			if got := o.owners[releasedOwner][v]; got != lent {
				t.Errorf("%s: it is owned by %v", what, o.owners)
			}
			if got := w.cluster.requests[id]; got != requests && got != requests+early {
				t.Errorf("%s: it took %d requests, not %d", what, got, requests)
			}
			w.cluster.requests[id], early = 0, 0
		}
		w.edit(id, rule, two)
		step("made", "2", true, 2)
		w.tamper(id, 5, 1)
		step("changed at the cluster", "tampered1", false, 0)
		w.edit(id, rule, three)
		step("changed in the space", "tampered1", false, 2)
		w.tamper(id, 2, 0)
		step("drift of something else", "tampered1", false, 2)

		w.restart(0, 0) // it dies after its next write
		w.tamper(id, 0, 0)
		w.pass(5)
		if !w.line.dead.Load() {
			t.Error("the agent lives")
		}
		early = 1
		step("made anew by an agent that died", "3", true, 4)
		w.edit(id, noRule, three)
		step("the rule is gone", "3", false, 3)
		w.edit(id, rule, three)
		step("the rule is back", "3", true, 3)
		w.edit(id, rule, two)
		step("changed in the space again", "3", true, 2)

		w.stop(false)
		w.start(t.TempDir())
		early = 1
		step("without its store", "3", true, 2)
		w.tamper(id, 5, 0)
		w.edit(id, noRule, two)
		step("the rule is gone again", "2", false, 2)
	})
}

// TestModelCannotRelease has a rule for a part of something that the cluster keeps
// whole. The object is made, and then left as it is until the rule changes.
func TestModelCannotRelease(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		id, v := identities[2], fieldPath("data", "v")
		k := w.spaceKeys(id)[0]
		put := func(value any, release string) {
			object := canonical(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": id.Name, "namespace": id.Namespace}, "data": map[string]any{"v": value},
			})
			p := &wire.Put{Key: k, UID: "u", Digest: wire.SumOf(object), Policy: wire.Policy{Release: release}, Object: object}
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			w.hub.write(wire.Frame{Put: p})
		}
		w.cluster.checkChange = func(string, *thing, *thing) {} // which does not know of lists
		check := func(what string, state wire.State, reason, value string) {
			t.Helper()
			<-time.After(5 * time.Minute)
			synctest.Wait()
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			if r := w.hub.reports[k]; r.State != state || r.Reason != reason {
				t.Errorf("%s: the report is %+v", what, r)
			}
			if got := w.cluster.objects[id.String()].fields[v]; got != value {
				t.Errorf("%s: the value is %s", what, got)
			}
		}
		put([]any{"a", "b"}, "$.data.v[1]")
		check("made", wire.Failed, "CannotRelease", `["a","b"]`)
		writes := w.cluster.writes
		put([]any{"c", "d"}, "$.data.v[1]")
		check("edited", wire.Failed, "CannotRelease", `["a","b"]`)
		if w.cluster.writes != writes {
			t.Errorf("it was written to %d times", w.cluster.writes-writes)
		}
		put([]any{"c", "d"}, "$.data.v")
		check("all of it", wire.Applied, "", `["a","b"]`)
		put([]any{"c", "d"}, "")
		check("without a rule", wire.Applied, "", `["c","d"]`)
	})
}
