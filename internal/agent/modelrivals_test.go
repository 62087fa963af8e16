package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/manifest"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// rivals are two agents of the whole of a location: the former has lost its hub, or its hub has
// refused it, before the latter was set up with a store of its own.
type rivals struct {
	*crew
	former, latter *life
}

// newRivals has the former agent apply objects, and sets up the latter.
func newRivals(t *testing.T, policy wire.Policy, lose func(*apart)) *rivals {
	t.Helper()
	r := newFormer(t, policy)
	lose(&r.former.apart)
	r.hub.mu.Lock()
	r.hub.say() // which ends the session
	r.hub.mu.Unlock()
	if err := r.begin(r.fresh(), key.NewShard(1, 1)); err != nil {
		t.Fatal(err)
	}
	r.latter = r.lives[1]
	<-time.After(time.Minute)
	return r
}

// newFormer has the former agent apply objects.
func newFormer(t *testing.T, policy wire.Policy) *rivals {
	t.Helper()
	r := &rivals{crew: newCrew(t, 1, t.TempDir(), 1)}
	r.former = r.lives[0]
	r.inCluster((*cluster).makeHome)
	for _, id := range identities[2:6] {
		r.offer(id, "1", policy)
	}
	<-time.After(time.Minute)
	return r
}

// makeHome makes the Namespace of the Lease of the location.
func (c *cluster) makeHome() {
	home := key.Identity{Resource: key.Namespaces, Name: manifest.Namespace}
	c.set(home.String(), (&thing{id: home, kind: "Namespace", foreign: true}).edit("kubectl", map[string]*string{}))
}

func (r *rivals) end() {
	for len(r.lives) > 0 {
		r.stop(r.lives[0], true)
	}
}

func (r *rivals) keyOf(id key.Identity) string {
	return key.Object{Space: r.spaces[0], Identity: id}.Path()
}

func (r *rivals) offer(id key.Identity, v string, policy wire.Policy) {
	object := canonical(map[string]any{
		"apiVersion": "v1", "kind": servedKind(id.Resource).kind, "data": map[string]any{"v": v},
		"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
	})
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	k := r.keyOf(id)
	r.hub.write(wire.Frame{Put: &wire.Put{Key: k, UID: "u-" + k, Generation: r.hub.revision, Digest: wire.SumOf(object), Policy: policy, Object: object}})
}

// inCluster changes or reads the cluster.
func (r *rivals) inCluster(f func(*cluster)) {
	synctest.Wait()
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	f(r.cluster)
}

// value returns the value of an object at the cluster; empty if it does not exist.
func (r *rivals) value(id key.Identity) (v string) {
	r.inCluster(func(c *cluster) {
		if o := c.objects[id.String()]; o != nil {
			v = strings.Trim(o.fields[fieldPath("data", "v")], `"`)
		}
	})
	return v
}

// TestModelRivals has two agents work for one location. The former stops, however it finds out, and
// the latter does what the hub says.
func TestModelRivals(t *testing.T) {
	for name, lose := range map[string]func(*apart){
		"superseded": func(a *apart) { a.supersedes.Store(true) }, "unheard": func(a *apart) { a.away.Store(true) },
	} {
		for kind, policy := range map[string]wire.Policy{"applied": {}, "reportDrift": {ReportDrift: true}, "createOnly": {CreateOnly: true}} {
			t.Run(name+" "+kind, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { playRivals(t, policy, lose) }) })
		}
	}
}

func playRivals(t *testing.T, policy wire.Policy, lose func(*apart)) {
	r := newRivals(t, policy, lose)
	defer r.end()
	changed, dropped, kept := identities[2], identities[3], identities[4]
	r.offer(changed, "2", policy)
	<-time.After(time.Minute)
	r.hub.mu.Lock()
	r.hub.write(del(r.keyOf(dropped), wire.Deleted))
	r.hub.mu.Unlock()
	<-time.After(time.Minute)
	want := map[key.Identity]string{changed: "2", dropped: "", kept: "1"}
	if policy.CreateOnly {
		want[changed] = "1"
	}
	writes := 0
	r.inCluster(func(c *cluster) { writes = c.writes })
	for range 30 {
		<-time.After(10 * time.Second)
		for id, v := range want {
			if now := r.value(id); now != v {
				t.Fatalf("%s has %q, want %q", id, now, v)
			}
		}
	}
	r.inCluster(func(c *cluster) {
		if n := c.writes - writes; n > 0 {
			t.Errorf("%d writes while nothing happened", n)
		}
	})
	if why := r.former.Halted(); why == "" {
		t.Error("the former agent is not halted")
	}
	if why := r.latter.Halted(); why != "" {
		t.Errorf("the latter agent is halted: %s", why)
	}
	if r.latter.aged.Load() {
		t.Error("the latter agent takes its store for an older one")
	}
}

// TestModelRivalOfANewLocation removes a location and adds it again under its name, with an agent of
// its own, while the former agent can't reach the hub. That stops when it finds its objects marked
// anew.
func TestModelRivalOfANewLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := wire.Policy{Adopt: true}
		r := newFormer(t, policy)
		defer r.end()
		r.former.apart.away.Store(true)
		r.hub.mu.Lock()
		r.hub.say() // which ends the session
		r.hub.uid = "22222222-location"
		r.hub.reports = map[string]wire.Report{}
		r.hub.mu.Unlock()
		changed := identities[2]
		r.offer(changed, "2", policy)
		if err := r.begin(r.fresh(), key.NewShard(1, 1)); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Minute)
		writes := 0
		r.inCluster(func(c *cluster) { writes = c.writes })
		<-time.After(10 * time.Minute)
		r.inCluster(func(c *cluster) {
			if n := c.writes - writes; n > 0 {
				t.Errorf("%d writes while nothing happened", n)
			}
		})
		if v := r.value(changed); v != "2" {
			t.Errorf("%s has %q", changed, v)
		}
		if why := r.former.Halted(); why == "" {
			t.Error("the former agent is not halted")
		}
	})
}

// TestModelSupersededForGood starts an agent again that another one has superseded, also with a hub
// that would let it in, as one that was restored. It opens no session, and changes nothing.
func TestModelSupersededForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t, wire.Policy{}, func(a *apart) { a.supersedes.Store(true) })
		defer r.end()
		dir := r.former.config.DataDir
		r.stop(r.former, true)
		if err := r.begin(dir, key.NewShard(1, 1)); err != nil {
			t.Fatal(err)
		}
		again := r.lives[len(r.lives)-1]
		r.stop(r.latter, true)
		writes := 0
		r.inCluster(func(c *cluster) { writes = c.writes; c.remove(identities[2].String()) })
		<-time.After(5 * time.Minute)
		r.inCluster(func(c *cluster) {
			if n := c.writes - writes; n > 0 {
				t.Errorf("%d writes", n)
			}
		})
		if s := again.Status(); s.Halt != store.Superseded || s.Connected {
			t.Errorf("it says %+v", s)
		}
	})
}

// TestModelPairContested has another writer set the place in the log of an object back, again and
// again. That is repaired less and less often, as any change is.
func TestModelPairContested(t *testing.T) {
	for name, policy := range map[string]wire.Policy{"applied": {}, "reportDrift": {ReportDrift: true}, "createOnly": {CreateOnly: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				p := &proofModel{world: w, t: t}
				id := identities[2]
				p.offer(id, "1", policy)
				<-time.After(time.Minute)
				before, _ := w.pairOf(id)
				log := fmt.Sprintf("%q", ownership.NewPair(before.Marker(), before.Revision-1).String())
				writes := w.written()
				const fight = 10 * time.Minute
				for start := time.Now(); time.Since(start) < fight; <-time.After(100 * time.Millisecond) {
					w.onCluster(func(c *cluster) {
						if o := c.objects[id.String()]; o != nil {
							c.set(id.String(), o.edit("orrery/paris.11111111", map[string]*string{fieldPath("metadata", "annotations", v1alpha1.LogAnnotation): &log}))
						}
					})
				}
				if n := w.written() - writes; n > 60 {
					t.Errorf("%d writes within %s", n, fight)
				}
			})
		})
	}
}

// TestModelOlderStore starts an agent on an older copy of its store, while the hub is away and while
// it is there. Nothing at the cluster goes back, and no Job runs again.
func TestModelOlderStore(t *testing.T) {
	for name, away := range map[string]bool{"hub away": true, "hub there": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { playOlderStore(t, dir, away) })
		})
	}
}

func playOlderStore(t *testing.T, dir string, away bool) {
	w := newWorld(t, 1, dir)
	defer w.stop(true)
	p := &proofModel{world: w, t: t}
	changed, dropped, made, job := identities[2], identities[3], identities[4], identities[6]
	p.offerAll("1", changed, dropped)
	w.offerJob(job)
	<-time.After(30 * time.Second)
	older := w.snapshot()
	w.tamper(job, 3, 0) // it completes
	<-time.After(30 * time.Second)
	p.offerAll("2", changed, made)
	w.drop(dropped, 0, 1)
	<-time.After(30 * time.Second)
	w.onCluster(func(c *cluster) { c.remove(job.String()) }) // as by its TTL
	<-time.After(30 * time.Second)
	want := map[key.Identity]string{changed: "2", dropped: "", made: "2"}
	p.expectValues("before", want)
	w.stop(false)
	writes := 0
	w.onCluster(func(c *cluster) { writes = c.writes })
	w.hub.mu.Lock()
	w.hub.mood.away = away
	w.hub.mu.Unlock()
	w.start(older)
	<-time.After(5 * time.Minute)
	w.onCluster(func(c *cluster) {
		if n := c.writes - writes; away && n > 0 {
			t.Errorf("%d writes while the hub is away", n)
		}
	})
	p.expectValues("rolled back", want)
	w.heal()
	<-time.After(5 * time.Minute)
	w.anew()
	<-time.After(5 * time.Minute)
	p.expectValues("settled", want)
	if w.there(job) != "" {
		t.Error("a Job that has completed runs again")
	}
	if why := w.agent.Halted(); why != "" {
		t.Errorf("it is halted: %s", why)
	}
	p.offerAll("3", changed)
	p.expectValues("after that", map[key.Identity]string{changed: "3"})
}

// TestModelOlderUntrustedStore starts an agent on a copy of its store from before that was trusted,
// while the hub is away: twice on the same copy, with another store between. Only the Lease shows that
// objects were removed since: they do not return.
func TestModelOlderUntrustedStore(t *testing.T) {
	for name, trusted := range map[string]bool{"trusted later": true, "never trusted": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { playUntrustedStore(t, dir, trusted) })
		})
	}
}

func playUntrustedStore(t *testing.T, dir string, trusted bool) {
	w := newWorld(t, 1, dir)
	defer w.stop(true)
	w.onCluster(func(c *cluster) {
		c.leases = map[string]*coordinationv1.Lease{}
		c.makeHome()
	})
	p := &proofModel{world: w, t: t}
	kept, dropped, later := identities[2], identities[3], identities[4]
	p.offerAll("1", kept, dropped, later)
	<-time.After(28 * time.Second) // between two reads of the Lease
	fresh := func(is bool) {
		if err := w.agent.store.Write(t.Context(), func(x *store.Tx) error { x.Meta().Fresh = is; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	fresh(true) // as if it had not been trusted yet
	copies := []string{w.snapshot(), w.snapshot()}
	w.onCluster(func(c *cluster) {
		for name := range c.leases { // it was written by a store that is trusted
			c.evict(name)
		}
	})
	fresh(!trusted)
	want := map[key.Identity]string{kept: "1", dropped: "1", later: "1"}
	for i, id := range []key.Identity{dropped, later} {
		w.drop(id, 0, 1)
		<-time.After(30 * time.Second)
		want[id] = ""
		p.expectValues("before", want)
		w.stop(false)
		w.hub.mu.Lock()
		w.hub.mood.away = true
		w.hub.mu.Unlock()
		w.start(copies[i])
		<-time.After(5 * time.Minute)
		p.expectValues("rolled back", want)
		w.heal()
		<-time.After(5 * time.Minute)
		w.anew()
		<-time.After(5 * time.Minute)
		p.expectValues("settled", want)
		if why := w.agent.Halted(); why != "" {
			t.Errorf("it is halted: %s", why)
		}
	}
}

// offerJob has the hub desire a Job.
func (w *world) offerJob(id key.Identity) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.offer(key.Object{Space: "s", Identity: id}.Path(), "u-job", wire.Frame{}, map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "data": map[string]any{"v": "1"},
		"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
	}, wire.Policy{})
}
