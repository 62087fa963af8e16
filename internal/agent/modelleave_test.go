package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// removeSlowly deletes an object as a client has it: what owns Pods is gone when
// those are, if that is waited for.
func (c *cluster) removeSlowly(o *thing, foreground bool) {
	id, slow := o.id.String(), c.slow[o.id]
	if foreground && slow == 0 {
		slow = time.Duration(1+c.rng.IntN(3000)) * time.Millisecond
	}
	if slow == 0 || decide.OwnsPods(o.id.Resource) && !foreground {
		c.remove(id)
		return
	}
	dying := o.copy()
	dying.terminating, dying.waits = true, foreground
	c.set(id, dying)
	time.AfterFunc(slow, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if now := c.objects[id]; now != nil && now.uid == o.uid && now.terminating {
			c.set(id, nil)
		}
	})
}

// before is a workload that is being removed, has not ended yet, and goes before an
// object; nil: there is none. One that the agent no longer knows of holds up nothing.
func (w *world) before(o *thing) *thing {
	if o.id.Namespace == "" || o.id.Resource.Rank() != key.RankConfig {
		return nil
	}
	for _, x := range w.cluster.objects {
		space := x.meta("labels", v1alpha1.SpaceLabel)
		if x.waits && x.id.Namespace == o.id.Namespace && space == o.meta("labels", v1alpha1.SpaceLabel) && w.unwanted(x.id) && w.recorded(x) && !w.desires(x.id) {
			return x
		}
	}
	return nil
}

// desires reports whether the agent's store has an entry of an identity.
func (w *world) desires(id key.Identity) bool {
	content := w.contentOf()
	return slices.ContainsFunc(w.spaceKeys(id), func(k string) bool { _, ok := content[k]; return ok })
}

// The objects that are removed together in these tests.
var (
	leavingHook   = key.Identity{Resource: hooks, Name: "h"}
	leavingWidget = identities[7]
	leavingJob    = identities[6]
	leavingMap    = identities[2] // in the namespace of the Job
	elsewhere     = identities[5] // in another namespace
	leavingRole   = key.Identity{Resource: worklist.ClusterRoles, Name: "r"}
	sumOfRoles    = key.Identity{Resource: worklist.ClusterRoles, Name: "a"}
	leavingAll    = []key.Identity{elsewhere, identities[0], leavingMap, leavingRole, leavingWidget, leavingJob, sumOfRoles, leavingHook, widgetsCRD}
)

// leaveModel is a world in which things leave together.
type leaveModel struct {
	*world
	all   []key.Identity
	cause wire.Cause
	// from is the length of the cluster's log when they began to leave, since when that was.
	from  int
	since time.Time
}

// leaveTogether has a location get objects, and then lose them, each with its own
// deletion, in the order given.
func leaveTogether(t *testing.T, all []key.Identity, before func(*leaveModel), then func(*leaveModel)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		m := &leaveModel{world: w, all: all, cause: wire.Deleted}
		w.cluster.slow = map[key.Identity]time.Duration{}
		w.hub.mu.Lock()
		w.put(pathOf(widgetsCRD), wire.Frame{}, 7, 1)
		for _, id := range all {
			if id != widgetsCRD {
				m.make(id)
			}
		}
		w.hub.mu.Unlock()
		<-time.After(10 * time.Second)
		w.cluster.mu.Lock()
		for _, id := range all {
			if w.cluster.objects[id.String()] == nil {
				t.Fatalf("%s is not there", id)
			}
		}
		if before != nil {
			before(m)
		}
		m.from, m.since = len(w.cluster.log), time.Now()
		w.cluster.mu.Unlock()
		w.hub.mu.Lock()
		for _, id := range m.all {
			w.hub.write(del(pathOf(id), m.cause))
		}
		w.hub.mu.Unlock()
		then(m)
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		if len(w.bad) > 0 {
			t.Error(w.bad)
		}
		if t.Failed() {
			t.Log(strings.Join(w.story, "\n"))
		}
	})
}

func pathOf(id key.Identity) string { return key.Object{Space: "s", Identity: id}.Path() }

func (m *leaveModel) make(id key.Identity) {
	version := "v1"
	if g := id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	meta := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		meta["namespace"] = id.Namespace
	}
	body := map[string]any{"apiVersion": version, "kind": servedKind(id.Resource).kind, "metadata": meta, "data": map[string]any{"v": "1"}}
	if id == sumOfRoles {
		body["aggregationRule"] = map[string]any{"x": "y"}
	}
	m.offer(pathOf(id), "u-"+id.Name, wire.Frame{}, body, wire.Policy{})
}

// went are, in order, when objects began to go and were gone, after they were to leave.
func (m *leaveModel) went() (all []string, times map[string]time.Duration) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	times = map[string]time.Duration{}
	for _, h := range m.cluster.log[m.from:] {
		var what string
		switch {
		case h.after == nil && h.before != nil:
			what = h.before.id.String() + " gone"
		case h.after != nil && h.after.terminating && h.before != nil && !h.before.terminating:
			what = h.after.id.String() + " going"
		default:
			continue
		}
		all, times[what] = append(all, what), h.time.Sub(m.since)
	}
	return all, times
}

// gone waits until all of them are gone, and returns in what order, and when, they
// began to go and were gone.
func (m *leaveModel) gone(within time.Duration) ([]string, map[string]time.Duration) {
	m.t.Helper()
	for start := time.Now(); ; <-time.After(100 * time.Millisecond) {
		synctest.Wait()
		order, times := m.went()
		left := slices.DeleteFunc(slices.Clone(m.all), func(id key.Identity) bool { return slices.Contains(order, id.String()+" gone") })
		if len(left) == 0 {
			return order, times
		}
		if time.Since(start) > within {
			m.t.Fatalf("%v are still there after %s: %v", left, within, order)
		}
	}
}

// before expects that things happened in order.
func (m *leaveModel) inOrder(order []string, all ...string) {
	m.t.Helper()
	last := -1
	for _, what := range all {
		i := slices.Index(order, what)
		if i <= last {
			m.t.Errorf("%s is number %d in %v, not after %v", what, i, order, all)
		}
		last = max(last, i)
	}
}

func gone(id key.Identity) string  { return id.String() + " gone" }
func going(id key.Identity) string { return id.String() + " going" }

// reported waits for a report.
func (m *leaveModel) reported(id key.Identity, state wire.State, reason string) wire.Report {
	m.t.Helper()
	for start := time.Now(); ; <-time.After(100 * time.Millisecond) {
		m.hub.mu.Lock()
		r := m.hub.reports[pathOf(id)]
		m.hub.mu.Unlock()
		if r.State == state && r.Reason == reason {
			return r
		}
		if time.Since(start) > 10*time.Second {
			m.t.Fatalf("%s is reported %+v, not %s %s", id, r, state, reason)
		}
	}
}

// TestLeaveInOrder has everything leave at once: what controllers need is there
// until they have ended, and they until their custom resources are gone.
func TestLeaveInOrder(t *testing.T) {
	leaveTogether(t, leavingAll, func(m *leaveModel) {
		m.cluster.slow[leavingHook] = 3 * time.Second
		m.cluster.slow[leavingWidget] = 10 * time.Second
		m.cluster.slow[leavingJob] = 40 * time.Second
		m.cluster.slow[leavingRole] = 5 * time.Second
	}, func(m *leaveModel) {
		m.reported(leavingWidget, wire.Removing, v1alpha1.ReasonWaitsForWebhooks)
		m.reported(leavingJob, wire.Removing, v1alpha1.ReasonWaitsForCustomResources)
		<-time.After(10 * time.Second)
		r := m.reported(leavingRole, wire.Removing, v1alpha1.ReasonWaitsForWorkloads)
		if !strings.Contains(r.Message, leavingJob.String()) {
			m.t.Errorf("the report does not name what is waited for: %s", r.Message)
		}
		if r := m.reported(leavingJob, wire.Removing, "Terminating"); !strings.Contains(r.Message, "Pods") {
			m.t.Errorf("the report does not say what is waited for: %s", r.Message)
		}
		order, times := m.gone(2 * time.Minute)
		m.inOrder(order, gone(leavingHook), going(leavingWidget), gone(leavingWidget), going(leavingJob), gone(leavingJob), gone(leavingMap), going(identities[0]))
		m.inOrder(order, gone(leavingJob), going(leavingRole), gone(leavingRole), gone(sumOfRoles))
		m.inOrder(order, gone(leavingWidget), gone(elsewhere), gone(leavingJob), going(widgetsCRD), gone(widgetsCRD))
		if since := times[gone(sumOfRoles)] - times[gone(leavingRole)]; since < worklist.RolesCalm {
			m.t.Errorf("what aggregates a role went %s after it", since)
		}
		if times[gone(identities[0])] > 70*time.Second {
			m.t.Errorf("all of it took %v", times)
		}
	})
}

// TestLeaveInOrderAfterKills is the same for an agent that is killed again and again.
func TestLeaveInOrderAfterKills(t *testing.T) {
	leaveTogether(t, leavingAll, func(m *leaveModel) {
		m.cluster.slow[leavingWidget] = 20 * time.Second
		m.cluster.slow[leavingJob] = 40 * time.Second
	}, func(m *leaveModel) {
		for range 9 {
			<-time.After(7 * time.Second)
			m.start(m.stop(false))
		}
		order, _ := m.gone(2 * time.Minute)
		m.inOrder(order, gone(leavingHook), going(leavingWidget), gone(leavingWidget), going(leavingJob), gone(leavingJob), gone(leavingMap), going(identities[0]))
		m.inOrder(order, gone(leavingJob), gone(leavingRole), gone(sumOfRoles))
	})
}

// TestLeaveIsBounded has a custom resource and a workload that never end: what is removed
// after them is removed in the end, and so is the workload.
func TestLeaveIsBounded(t *testing.T) {
	all := []key.Identity{leavingMap, leavingRole, leavingWidget, leavingJob}
	leaveTogether(t, all, func(m *leaveModel) {
		m.cluster.slow[leavingWidget] = 24 * time.Hour
		m.cluster.slow[leavingJob] = 24 * time.Hour
	}, func(m *leaveModel) {
		m.all = all[:2]
		_, times := m.gone(10 * time.Minute)
		if from := times[going(leavingJob)]; from < worklist.CustomTimeout || from > worklist.CustomTimeout+10*time.Second {
			m.t.Errorf("the workload was to go after %s, not %s", worklist.CustomTimeout, from)
		}
		for _, id := range all[:2] {
			if took := times[gone(id)]; took < worklist.CustomTimeout+worklist.PodsTimeout || took > worklist.CustomTimeout+worklist.PodsTimeout+20*time.Second {
				m.t.Errorf("%s was to go after %s, not %s", id, worklist.CustomTimeout+worklist.PodsTimeout, took)
			}
		}
		m.all = all[3:]
		m.gone(2 * decide.TerminatingRetry)
		// A later removal does not wait for a removal that hangs.
		m.hub.mu.Lock()
		m.make(elsewhere)
		m.hub.mu.Unlock()
		<-time.After(5 * time.Second)
		m.hub.mu.Lock()
		m.hub.write(del(pathOf(elsewhere), wire.Deleted))
		m.hub.mu.Unlock()
		m.all = []key.Identity{elsewhere}
		m.gone(2 * time.Second)
	})
}

// TestLeaveAlone: an object that leaves while no other does is removed at once, and so is
// one that the others do not hold up: in another namespace or of another space, or when
// what they are stays.
func TestLeaveAlone(t *testing.T) {
	leaveTogether(t, []key.Identity{leavingJob, elsewhere}, func(m *leaveModel) {
		m.cluster.slow[leavingJob] = time.Minute
	}, func(m *leaveModel) {
		_, times := m.gone(2 * time.Minute)
		if times[gone(elsewhere)] > time.Second || times[going(leavingJob)] > time.Second {
			m.t.Errorf("one has waited for the other: %v", times)
		}
	})
}

// TestLeaveNotHeld: an object that does not leave holds up nothing: one that waits for a
// confirmation, that is orphaned, or that is of another space.
func TestLeaveNotHeld(t *testing.T) {
	many := []key.Identity{leavingMap, leavingJob}
	for i := range 50 {
		many = append(many, key.Identity{Resource: leavingMap.Resource, Namespace: "b", Name: fmt.Sprint("n", i)})
	}
	leaveTogether(t, many, func(m *leaveModel) {
		m.all = many[2:]
		m.cause = wire.Unassigned
	}, func(m *leaveModel) {
		m.gone(10 * time.Second)
		m.hub.mu.Lock()
		m.hub.write(del(pathOf(leavingJob), wire.Unassigned))
		m.hub.write(del(pathOf(leavingMap), wire.Deleted))
		m.hub.mu.Unlock()
		m.reported(leavingJob, wire.Removing, v1alpha1.ReasonPruneGuard)
		m.all = []key.Identity{leavingMap}
		m.gone(time.Second)
	})
	leaveTogether(t, []key.Identity{leavingMap, leavingJob}, func(m *leaveModel) {
		m.all = nil
	}, func(m *leaveModel) {
		m.hub.mu.Lock()
		f := m.hub.content(m.hub.revision)[pathOf(leavingJob)]
		put := *f.Put
		put.Policy.Orphan = true
		m.cluster.mu.Lock()
		m.allPuts[leafOf(wire.Frame{Put: &put})] = &put
		m.cluster.mu.Unlock()
		m.hub.write(wire.Frame{Put: &put})
		m.hub.mu.Unlock()
		<-time.After(10 * time.Second)
		m.hub.mu.Lock()
		m.hub.write(del(pathOf(leavingJob), wire.Deleted))
		m.hub.write(del(pathOf(leavingMap), wire.Deleted))
		m.hub.mu.Unlock()
		m.all = []key.Identity{leavingMap}
		m.gone(time.Second)
	})
}

// TestLeaveWanted: a workload that is desired again while it ends is created again when
// it has ended, or when that takes too long.
func TestLeaveWanted(t *testing.T) {
	for _, slow := range []time.Duration{30 * time.Second, 24 * time.Hour} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			leaveTogether(t, []key.Identity{leavingMap, leavingJob}, func(m *leaveModel) {
				m.cluster.slow[leavingJob] = slow
			}, func(m *leaveModel) {
				m.reported(leavingMap, wire.Removing, v1alpha1.ReasonWaitsForWorkloads)
				m.hub.mu.Lock()
				m.make(leavingJob)
				m.hub.mu.Unlock()
				m.reported(leavingJob, wire.Waiting, "Terminating")
				m.all = []key.Identity{leavingMap}
				m.gone(5 * time.Second) // nothing holds it up any more
				m.all = []key.Identity{leavingJob}
				_, times := m.gone(10 * time.Minute)
				if took, most := times[gone(leavingJob)], min(slow, worklist.PodsTimeout); took < most-time.Second || took > most+decide.TerminatingRetry+time.Second {
					m.t.Errorf("it was to go after %s, not %s", most, took)
				}
				m.reported(leavingJob, wire.Applied, "")
			})
		})
	}
}

// halt has the hub pause the location, or resume it.
func (m *leaveModel) halt(why string) {
	m.hub.mu.Lock()
	m.hub.settings.Halt = why
	m.hub.say()
	m.hub.mu.Unlock()
	synctest.Wait()
}

// TestLeavePaused pauses a location while objects are removed. Objects that wait for others
// continue to wait after the pause, for the rest of their time.
func TestLeavePaused(t *testing.T) {
	leaveTogether(t, []key.Identity{leavingMap, leavingWidget, leavingJob, leavingHook}, func(m *leaveModel) {
		m.cluster.slow[leavingHook] = 10 * time.Second
	}, func(m *leaveModel) {
		m.reported(leavingMap, wire.Removing, v1alpha1.ReasonWaitsForWebhooks)
		m.halt("paused")
		<-time.After(time.Hour)
		m.halt("")
		order, _ := m.gone(10 * time.Minute)
		m.inOrder(order, gone(leavingHook), gone(leavingWidget), going(leavingJob), gone(leavingJob), gone(leavingMap))
	})
	leaveTogether(t, []key.Identity{leavingMap, leavingJob}, func(m *leaveModel) {
		m.cluster.slow[leavingJob] = 24 * time.Hour
	}, func(m *leaveModel) {
		m.reported(leavingMap, wire.Removing, v1alpha1.ReasonWaitsForWorkloads)
		<-time.After(time.Minute)
		for range 3 {
			m.halt("paused")
			<-time.After(time.Hour)
			m.halt("")
			<-time.After(time.Minute)
		}
		order, times := m.gone(10 * time.Minute)
		m.inOrder(order, going(leavingJob), gone(leavingMap))
		for _, id := range m.all {
			if took := times[gone(id)] - 3*time.Hour; took < worklist.PodsTimeout || took > worklist.PodsTimeout+decide.TerminatingRetry+10*time.Second {
				m.t.Errorf("%s went %s after, but for the pauses", id, took)
			}
		}
	})
}
