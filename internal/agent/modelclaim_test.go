package agent

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// usual is the argument of edit for a put without a policy.
const usual = 7

// aliasGroup is where a cluster that is aliased serves ConfigMaps once more.
const aliasGroup = "alias.example"

var aliasMaps = key.NewResource(aliasGroup, "configmaps")

// there is the UID of the object at the cluster; empty: there is none.
func (w *world) there(id key.Identity) string {
	uid := ""
	w.onCluster(func(c *cluster) {
		if o := c.objects[id.String()]; o != nil {
			uid = o.uid
		}
	})
	return uid
}

// onCluster calls f with the cluster, under its lock.
func (w *world) onCluster(f func(*cluster)) {
	synctest.Wait()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	f(w.cluster)
}

// written is how often something has been written at the cluster, once all is still.
func (w *world) written() (writes int) {
	w.onCluster(func(c *cluster) { writes = c.writes })
	return writes
}

// TestModelUnseen kills an agent between the creation of a Job and the record of it. The
// hub no longer desires the Job by then. The agent receives that before any list shows the Job.
func TestModelUnseen(t *testing.T) {
	for seed := range seeds.All(t, 20) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, dir)
			defer w.stop(true)
			w.edit(identities[2], usual, 1)
			<-time.After(10 * time.Second)
			w.onCluster(func(*cluster) { w.line.last = 1 })
			w.edit(identities[6], usual, 1)
			<-time.After(time.Second)
			if !w.line.dead.Load() {
				t.Fatal("the agent is alive")
			}
			w.drop(identities[6], 0, 1)
			w.onCluster(func(c *cluster) { c.weather = weather{slow: 5 * time.Second} })
			w.start(w.stop(false))
			<-time.After(30 * time.Second)
			if err := w.awaitSettled(true); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

// TestModelRolledBack gives an agent an old copy of its store while the hub is away. What
// it created since is not removed: only the hub knows whether it is desired.
func TestModelRolledBack(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		w.edit(identities[2], usual, 1)
		<-time.After(30 * time.Second)
		old := w.snapshot()
		w.edit(identities[3], usual, 1)
		<-time.After(30 * time.Second)
		before := w.there(identities[3])
		w.stop(false)
		w.hub.mood = mood{away: true}
		w.start(old)
		<-time.After(5 * time.Minute)
		if now := w.there(identities[3]); now != before {
			t.Errorf("while the hub was away %q became %q", before, now)
		}
		w.heal()
		<-time.After(5 * time.Minute)
		w.anew()
		<-time.After(5 * time.Minute)
		if now := w.there(identities[3]); now != before {
			t.Errorf("%q became %q", before, now)
		}
	})
}

// TestWrittenAs is about the group in which an object was written.
func TestWrittenAs(t *testing.T) {
	const self ownership.Owner = "edge.0a1b2c3d"
	in := func(manager, version, subresource string) *ownership.Meta {
		return &ownership.Meta{ManagedFields: []ownership.ManagedFields{{Manager: manager, APIVersion: version, Subresource: subresource}}}
	}
	maps, roles := key.NewResource("", "configmaps"), key.NewResource("rbac.authorization.k8s.io", "roles")
	for i, c := range []struct {
		meta *ownership.Meta
		as   key.Resource
		want bool
	}{
		{in(self.Manager(), "v1", ""), maps, true},
		{in(self.Manager(), "v1", ""), aliasMaps, false},
		{in(self.Manager(), "rbac.authorization.k8s.io/v1", ""), roles, true},
		{in(self.Manager(), "rbac.authorization.k8s.io/v1beta1", ""), roles, true},
		{in(self.Manager(), "authorization.openshift.io/v1", ""), roles, false},
		{in("kubectl", "v1", ""), maps, false},
		{in(self.Manager(), "v1", "status"), maps, false},
		{&ownership.Meta{}, maps, false},
	} {
		if got := c.meta.WrittenAs(self, c.as); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// TestModelAlias serves the agent's objects under another group as well.
func TestModelAlias(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, dir)
		defer w.stop(true)
		w.onCluster(func(c *cluster) { c.aliased = true })
		id := identities[2]
		w.edit(id, usual, 1)
		<-time.After(30 * time.Second)
		before := w.there(id)
		alias := key.Object{Space: "s", Identity: key.Identity{Resource: aliasMaps, Namespace: id.Namespace, Name: id.Name}}
		w.agent.engine.Adopt(kubeclient.Served{Place: kubeclient.Place{Resource: aliasMaps, Version: "v1"}, Kind: "ConfigMap"}, []key.Located{{Object: alias}})
		<-time.After(5 * time.Minute)
		if now := w.there(id); before == "" || now != before {
			t.Errorf("%q became %q", before, now)
		}
		if _, desired := w.agent.engine.Namesakes(alias.Identity, before); !desired {
			t.Error("nobody knows that the object is desired under another name")
		}
		w.purge(id)
		<-time.After(5 * time.Minute)
		if now := w.there(id); now != "" {
			t.Errorf("%q is not removed", now)
		}
		if s := w.agent.purge.Status(); s == nil || s.Left > 0 {
			t.Errorf("the purge has come to %+v", s)
		}
	})
}

// purge has the hub ask for a purge, which ends that an object is desired.
func (w *world) purge(id key.Identity) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.settings.Purge = true
	w.hub.write(del(key.Object{Space: "s", Identity: id}.Path(), wire.Unassigned))
	w.hub.say()
}

// TestModelPurge purges a location where some kinds can't be listed, or where it is not
// known at the moment what a group serves.
func TestModelPurge(t *testing.T) {
	jobs := key.NewResource("batch", "jobs")
	for name, c := range map[string]struct {
		before, after func(*cluster)
	}{
		"closed": {before: func(c *cluster) { c.closed[jobs] = true }},
		"stale": {
			before: func(c *cluster) { c.stale = "batch" },
			after:  func(c *cluster) { c.stale = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				w.edit(identities[2], usual, 1)
				<-time.After(30 * time.Second)
				w.onCluster(c.before)
				w.lose(func() { clear(w.hub.reports) }) // or it would know without a search
				w.purge(identities[2])
				<-time.After(time.Hour)
				if uid := w.there(identities[2]); uid != "" {
					t.Errorf("%s is still there", uid)
				}
				if c.after != nil {
					if s := w.agent.purge.Status(); s != nil {
						t.Errorf("it is not known what there is, and the purge has come to %+v", s)
					}
					w.onCluster(c.after)
					<-time.After(10 * time.Minute)
				}
				if s := w.agent.purge.Status(); s == nil || s.Left > 0 {
					t.Errorf("the purge has come to %+v", s)
				}
				w.onCluster(func(c *cluster) {
					if n := c.lists[jobs]; n > 40 {
						t.Errorf("Jobs were listed %d times in an hour", n)
					}
				})
			})
		})
	}
}

// TestModelGuardLost has an agent lose its store, twice, while removals wait.
func TestModelGuardLost(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g := &guardModel{
			world: newWorld(t, 3, dir), rng: rand.New(rand.NewPCG(3, 9)),
			wanted: map[string]bool{}, held: map[string]bool{},
		}
		defer g.stop(true)
		g.hub.mu.Lock()
		g.hub.settings.PruneMaxPercent = 1
		g.hub.mu.Unlock()
		for len(g.wanted) < 150 {
			g.add()
		}
		g.compare("at first")
		for _, k := range g.some(120) {
			g.take(k, wire.Unassigned, 1)
		}
		g.compare("120 unassigned")
		for i := range 2 {
			g.lose(func() {})
			g.compare("lost " + strconv.Itoa(i))
			if n := g.agent.Status().Guarded; n != len(g.held) {
				t.Errorf("%d removals wait, not %d", n, len(g.held))
			}
		}
		g.hub.mu.Lock()
		g.hub.settings.Confirm = []wire.Confirmation{{Digest: g.agent.store.Meta().Guarded.Total().Digest()}}
		g.hub.say()
		g.hub.mu.Unlock()
		clear(g.held)
		g.compare("confirmed")
	})
}

// TestModelOnRemove changes whether an object is to stay, and nothing else of it.
func TestModelOnRemove(t *testing.T) {
	for name, createOnly := range map[string]bool{"applied": false, "createOnly": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				id := identities[2]
				body := map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"v": "1"},
					"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace},
				}
				writes := 0
				for i, stays := range []bool{false, true, true, false, true} {
					w.hub.mu.Lock()
					w.offer(key.Object{Space: "s", Identity: id}.Path(), "u-s1", wire.Frame{}, body, wire.Policy{CreateOnly: createOnly, Orphan: stays})
					w.hub.mu.Unlock()
					<-time.After(2 * time.Minute)
					got, want, before := "", "", writes
					w.onCluster(func(c *cluster) {
						got, writes = c.objects[id.String()].meta("annotations", v1alpha1.OnRemoveAnnotation), c.writes
					})
					if stays {
						want = "Orphan"
					}
					if got != want {
						t.Errorf("%d: the mark is %q, want %q", i, got, want)
					}
					if n := writes - before; i > 0 && n != 1 && i != 2 || i == 2 && n != 0 {
						t.Errorf("%d: it took %d writes", i, n)
					}
				}
				if len(w.bad) > 0 {
					t.Error(fmt.Sprint(w.bad))
				}
			})
		})
	}
}
