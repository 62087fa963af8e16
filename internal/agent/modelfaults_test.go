package agent

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/wire"
)

// disturb changes how the cluster answers.
func (w *world) disturb(b, c int) {
	if b%12 == 11 {
		w.rewind(c)
		return
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	cl := w.cluster
	switch b % 12 {
	case 10:
		cl.weather = weather{paints: true}
	case 0:
		cl.weather = weather{refuse: 30}
	case 1:
		cl.weather = weather{breaks: 30}
	case 2:
		cl.weather = weather{lose: 40}
	case 3:
		cl.weather = weather{hang: 10, breaks: 5, lose: 5, refuse: 5}
	case 4:
		cl.weather = weather{slow: time.Duration(c) * time.Millisecond, lag: time.Duration(c) * 2 * time.Millisecond}
	case 5:
		cl.weather = weather{hollow: true}
	case 6:
		cl.weather = weather{dark: true}
	case 7:
		cl.epoch++ // watches end
	case 8:
		cl.compacted = cl.revision
		cl.epoch += c % 2
	default:
		cl.weather = weather{lag: time.Duration(c) * 3 * time.Millisecond}
	}
	w.tell("the cluster: %+v", cl.weather)
	cl.wake()
}

// restart ends the agent in some way, and starts it again.
func (w *world) restart(b, c int) {
	switch b % 6 {
	case 5:
		w.rollBack()
	case 0, 1:
		w.tell("kill the agent after %d writes", 1+c%4)
		w.cluster.mu.Lock()
		w.line.last = 1 + c%4
		w.cluster.mu.Unlock()
	case 2:
		w.tell("restart the agent")
		w.start(w.stop(true))
	case 3:
		w.tell("kill the agent")
		w.start(w.stop(false))
	default:
		w.lose(func() {
			if c%4 == 3 && len(w.hub.log) > 0 {
				to := w.hub.log[c/4%len(w.hub.log)].revision
				w.tell("the hub is restored from revision %d of %d", to, w.hub.revision)
				w.hub.restore(to)
			}
			if c%3 > 0 {
				return
			}
			// What the agent did last was not reported, and is dropped meanwhile.
			for _, k := range slices.Sorted(maps.Keys(w.hub.content(w.hub.revision))) {
				if w.hub.rng.IntN(3) == 0 {
					w.tell("del %s, of which there is no report", k)
					delete(w.hub.reports, k)
					w.hub.write(del(k, wire.Unassigned))
				}
			}
		})
	}
}

// rollBack starts the agent on a copy of its store from when all was settled. The hub is there: otherwise the agent would rightly go by the copy if nothing at the cluster shows that
// it is one.
func (w *world) rollBack() {
	older := w.older
	if older == "" {
		return
	}
	w.tell("the agent begins with an older copy of its store")
	w.older = ""
	w.stop(false)
	w.hub.mu.Lock()
	w.hub.mood = mood{}
	w.cluster.mu.Lock()
	w.cluster.weather = weather{}
	for _, o := range w.cluster.objects {
		if o.meta("labels", v1alpha1.LocationLabel) == "" || o.meta("annotations", v1alpha1.SourceNameAnnotation) == "" {
			o.foreign = true // nothing proves it to be ours any more
		}
	}
	w.forgot, w.lost = true, true
	w.cluster.mu.Unlock()
	w.hub.mu.Unlock()
	w.start(older)
	w.cluster.mu.Lock()
	w.believed = w.contentOf()
	w.cluster.mu.Unlock()
	w.hub.mu.Lock()
	w.recordHubState()
	w.hub.mu.Unlock()
}

// lose restarts the agent without its store. meanwhile is called before the restart.
func (w *world) lose(meanwhile func()) {
	w.tell("the agent loses its store")
	w.stop(false)
	w.lives++
	w.cluster.mu.Lock()
	for _, o := range w.cluster.objects {
		if o.meta("labels", v1alpha1.LocationLabel) == "" || o.meta("annotations", v1alpha1.SourceNameAnnotation) == "" {
			o.foreign = true // nothing proves it to be ours any more
		}
	}
	w.forgot, w.lost, w.believed = true, true, map[string]store.Want{}
	w.cluster.mu.Unlock()
	w.hub.mu.Lock()
	meanwhile()
	w.cluster.mu.Lock()
	w.logNow(true)
	w.cluster.mu.Unlock()
	w.hub.mu.Unlock()
	w.start(fmt.Sprintf("%s/%d", w.dir, w.lives))
	w.hub.mu.Lock()
	w.recordHubState()
	w.hub.mu.Unlock()
}

// relog does something to the hub's log.
func (w *world) relog(b, c int) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	switch {
	case b%4 == 0:
		w.tell("the hub starts again")
		w.hub.start()
	case b%4 == 1:
		w.hub.window = w.hub.revision
		w.tell("the hub's window moves on")
	case b%4 == 2 && len(w.hub.log) > 0:
		// What is on its way arrives first.
		w.hub.mu.Unlock()
		synctest.Wait()
		believed := w.contentOf()
		w.hub.mu.Lock()
		w.cluster.mu.Lock()
		for k, x := range believed {
			if previous, known := w.believed[k]; !w.allowed[k][x.Sum(k)] && !(known && previous.Sum(k) == x.Sum(k)) {
				w.bad = append(w.bad, k+" is what no hub ever said")
			}
		}
		w.believed = believed
		w.cluster.mu.Unlock()
		to := w.hub.log[c%len(w.hub.log)].revision
		w.tell("the hub is restored from revision %d of %d", to, w.hub.revision)
		w.hub.restore(to)
		for _, k := range slices.Sorted(maps.Keys(w.hub.reports)) {
			if w.hub.rng.IntN(4) == 0 {
				delete(w.hub.reports, k)
			}
		}
		w.cluster.mu.Lock()
		w.forgot = true
		w.cluster.mu.Unlock()
	default:
		w.hub.settings.Accept = w.hub.marker(w.hub.revision)
		w.tell("accept %s", w.hub.settings.Accept)
		w.hub.say()
		w.recordHubState()
	}
}

// TestModelFullDisk tampers with the same object again and again while nothing can
// be written to the disk, also after the agent has started on it anew.
func TestModelFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		id := identities[2]
		w.edit(id, 7, 1)
		expectSettled := func(what string) {
			t.Helper()
			if err := w.awaitSettled(false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		expectSettled("placed")
		for _, again := range []bool{false, true} {
			w.fill(true)
			for n := range 4 {
				w.tamper(id, 5, n)
				expectSettled(fmt.Sprintf("edited for the %d. time", n+1))
				w.tamper(id, 0, n)
				expectSettled(fmt.Sprintf("deleted for the %d. time", n+1))
			}
			if w.agent.store.Failing() == nil {
				t.Fatal("the disk is not full")
			}
			if !again {
				w.start(w.stop(false))
			}
		}
		w.heal()
		expectSettled("there is room again")
	})
}

// TestModelContested has another writer undo every repair at once. The agent repairs less
// and less often, reports that, and stops when the other writer does.
func TestModelContested(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		id := identities[2]
		w.edit(id, 7, 1)
		if err := w.awaitSettled(false); err != nil {
			t.Fatal(err)
		}
		before := w.cluster.writes
		report := func() wire.Report {
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			return w.hub.reports[w.spaceKeys(id)[0]]
		}
		const fight = 20 * time.Minute
		for start := time.Now(); time.Since(start) < fight; <-time.After(200 * time.Millisecond) {
			synctest.Wait()
			w.tamper(id, 5, 0)
		}
		synctest.Wait()
		if n := w.cluster.writes - before; n > 12+int(fight/(40*time.Second)) {
			t.Errorf("it was repaired %d times within %s", n, fight)
		}
		if r := report(); r.State != wire.Applied || r.Reason != v1alpha1.ReasonContested {
			t.Errorf("the report says %s/%s", r.State, r.Reason)
		}
		if err := w.awaitSettled(false); err != nil { // it is repaired for good
			t.Error(err)
		}
		<-time.After(worklist.RepairCalm << 4)
		synctest.Wait()
		if r := report(); r.State != wire.Applied || r.Reason != "" {
			t.Errorf("after the fight the report says %s/%s", r.State, r.Reason)
		}
		if len(w.bad) > 0 {
			t.Error(w.bad)
		}
	})
}
