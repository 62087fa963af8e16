package agent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/orphans"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// lists is how often a resource was listed.
func (w *world) lists(r key.Resource) (n int) {
	w.onCluster(func(c *cluster) { n = c.lists[r] })
	return n
}

// surveyed fails unless a new store's survey is over, or is not, as given. If it is over,
// a restart lists no resource that is not in use, and neither does the agent within an
// hour.
func (p *proofModel) surveyed(what string, want bool, unused key.Resource) {
	p.t.Helper()
	if over := !p.agent.store.Meta().SearchPending; over != want {
		p.t.Errorf("%s: the survey is over: %v", what, over)
	}
	if !want {
		return
	}
	before := p.lists(unused)
	p.start(p.stop(false))
	<-time.After(time.Hour)
	if n := p.lists(unused) - before; n > 0 {
		p.t.Errorf("%s: it was listed %d times after all was done", what, n)
	}
}

// TestModelSurveyRestored has an agent lose its store while its hub is restored from a
// copy without objects of a kind. Those at the cluster wait for an acceptance, also
// over restarts of the agent, and are then removed.
func TestModelSurveyRestored(t *testing.T) {
	for name, c := range map[string]struct {
		policy wire.Policy
		// starts is how often the agent starts anew before the acceptance, known whether
		// the hub knows of another object then.
		starts int
		known  bool
		// stays reports whether the object remains permanently.
		stays bool
	}{
		"known":    {known: true},
		"nothing":  {},
		"started":  {known: true, starts: 3},
		"orphaned": {known: true, policy: wire.Policy{Orphan: true}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				kept, fresh := identities[2], identities[6]
				if c.known {
					p.offer(kept, "1", wire.Policy{})
				}
				<-time.After(30 * time.Second)
				copied := p.revision()
				p.offer(fresh, "2", c.policy)
				<-time.After(30 * time.Second)
				p.lose(func() { p.hub.restore(copied); clear(p.hub.reports) })
				<-time.After(5 * time.Minute)
				for range c.starts {
					p.start(p.stop(false))
					<-time.After(5 * time.Minute)
				}
				p.expectValues("restored", map[key.Identity]string{fresh: "2"})
				p.waits("restored", 1)
				p.surveyed("restored", false, fresh.Resource)

				p.accept()
				<-time.After(5 * time.Minute)
				left := ""
				if c.stays {
					left = "2"
				}
				p.expectValues("accepted", map[key.Identity]string{fresh: left})
				p.waits("accepted", 0)
				p.onCluster(func(cl *cluster) {
					if o := cl.objects[fresh.String()]; o != nil && o.meta("labels", v1alpha1.LocationLabel) != "" {
						t.Error("it was not let go")
					}
				})
				p.surveyed("accepted", true, fresh.Resource)
			})
		})
	}
}

// TestModelSurvey has an agent lose its store before it has reported an object, the
// only one of its kind, which the hub drops meanwhile, and keeps it from finding it.
func TestModelSurvey(t *testing.T) {
	job := identities[6]
	const retries = orphans.Rounds*int(orphans.MaxRetry/time.Hour) + 1
	for name, c := range map[string]struct {
		// before is done to the world before the agent starts anew, after ends that.
		before, after func(*world)
		// lists is how often the kind may be listed until then.
		lists int
		// lost reports whether the object is not found.
		lost bool
	}{
		"found": {},
		"paused": {
			before: func(w *world) { w.hub.settings.Halt = "paused" }, after: func(w *world) { w.change(8, 0) },
		},
		"away": {
			before: func(w *world) { w.hub.mood = mood{away: true} }, after: (*world).heal,
		},
		"broken": {
			before: func(w *world) { w.cluster.weather = weather{hollow: true} }, after: (*world).endFaults,
		},
		"refused": {
			before: func(w *world) { w.cluster.closed[job.Resource] = true }, lists: 4,
			after: func(w *world) { w.onCluster(func(c *cluster) { delete(c.closed, job.Resource) }) },
		},
		"hanging": {
			before: func(w *world) { w.cluster.hangs = job.Resource.APIGroup() }, lists: 4,
			after: func(w *world) { w.onCluster(func(c *cluster) { c.hangs = "" }) },
		},
		"not known": {
			before: func(w *world) { w.cluster.stale = "batch" }, lists: 4,
			after: func(w *world) { w.onCluster(func(c *cluster) { c.stale = "" }) },
		},
		"closed": {
			before: func(w *world) { w.cluster.closed[job.Resource] = true }, lists: orphans.Rounds,
			after: func(w *world) { <-time.After(24 * time.Hour) }, lost: true,
		},
		"large": {before: func(w *world) { w.crowd(job.Resource, 3*500) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				p.offer(identities[2], "1", wire.Policy{})
				p.offer(job, "1", wire.Policy{})
				<-time.After(30 * time.Second)
				p.lose(func() {
					path := key.Object{Space: "s", Identity: job}.Path()
					delete(p.hub.reports, path)
					p.hub.write(del(path, wire.Unassigned))
					p.world.cluster.mu.Lock()
					defer p.world.cluster.mu.Unlock()
					clear(p.world.cluster.lists)
					if c.before != nil {
						c.before(p.world)
					}
				})
				<-time.After(5 * time.Minute)
				if c.after != nil {
					if n := p.lists(job.Resource); n > c.lists {
						t.Errorf("it was listed %d times", n)
					}
					c.after(p.world)
					<-time.After(20 * time.Minute)
				}
				left := ""
				if c.lost {
					left = "1"
				}
				p.expectValues("in the end", map[key.Identity]string{identities[2]: "1", job: left})
				if n := p.lists(job.Resource); n > retries+4+p.world.pages() {
					t.Errorf("it was listed %d times in the end", n)
				}
				p.surveyed("in the end", true, job.Resource)
			})
		})
	}
}

// crowd makes many objects of a resource that have our label and are not ours.
func (w *world) crowd(r key.Resource, n int) {
	for i := range n {
		id := key.Identity{Resource: r, Namespace: "a", Name: fmt.Sprintf("a-%05d", i)}
		o := &thing{id: id, kind: servedKind(r).kind, foreign: true, fields: map[string]string{
			fieldPath("metadata", "labels", v1alpha1.LocationLabel): `"paris.11111111"`,
		}, owners: map[owner]map[string]bool{}}
		w.cluster.set(id.String(), o)
	}
}

// pages is how many pages the largest list has, of whole objects.
func (w *world) pages() (n int) {
	w.onCluster(func(c *cluster) { n = len(c.objects) / 100 })
	return n
}

// TestModelSurveyAlias searches a cluster that serves the same objects in two groups.
func TestModelSurveyAlias(t *testing.T) {
	for name, dropped := range map[string]bool{"desired": false, "dropped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				p.onCluster(func(c *cluster) { c.aliased = true })
				id := identities[2]
				p.offer(id, "1", wire.Policy{})
				<-time.After(30 * time.Second)
				before := p.there(id)
				p.lose(func() {
					if path := (key.Object{Space: "s", Identity: id}).Path(); dropped {
						delete(p.hub.reports, path)
						p.hub.write(del(path, wire.Unassigned))
					}
				})
				<-time.After(10 * time.Minute)
				if now := p.there(id); now != before && !dropped || now != "" && dropped {
					t.Errorf("%q became %q", before, now)
				}
				if _, used := p.agent.engine.Uses()[aliasMaps]; used {
					t.Error("the alias is observed")
				}
				p.expectValues("in the end", nil)
				p.surveyed("in the end", true, aliasMaps)
			})
		})
	}
}

// TestModelSurveyOlder shows that a store that is not new costs no search.
func TestModelSurveyOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofModel(t)
		defer p.stop(true)
		p.offer(identities[2], "1", wire.Policy{})
		<-time.After(10 * time.Minute)
		p.surveyed("settled", true, identities[6].Resource)
	})
}
