package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// runCrew has agents share a location, so many at first.
func runCrew(t *testing.T, shards int, do func(c *crew)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 1, dir, shards)
		defer func() {
			for len(c.lives) > 0 {
				c.stop(c.lives[0], false)
			}
			if t.Failed() {
				t.Log(strings.Join(c.story, "\n"))
			}
		}()
		do(c)
	})
}

// mustSettle is awaitSettled, but fails the test on an error.
func (c *crew) mustSettle(what string) {
	c.t.Helper()
	if err := c.awaitSettled(); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// falling is a space that falls to a shard of so many.
func (c *crew) falling(number, total int) key.Space {
	for _, s := range c.spaces {
		if key.ShardOf(s, total) == number {
			return s
		}
	}
	c.t.Fatalf("no space falls to shard %d of %d", number, total)
	return ""
}

// TestModelShardReturns: an agent whose shard was taken away and is given back does not go by
// what it knew then. What has completed meanwhile does not run again.
func TestModelShardReturns(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			runCrew(t, 3, func(c *crew) {
				job := string(c.falling(3, 3)) + "/batch/jobs/a/j"
				c.mustSettle("three")
				c.share(n, 0)
				c.edit(job, 1)
				c.mustSettle("others")
				c.tamper(job, 1, 1)
				c.mustSettle("it has completed")
				c.tamper(job, 1, 1)
				c.mustSettle("it is cleaned up")
				c.share(3, 0)
				c.mustSettle("three again")
			})
		})
	}
}

// TestModelShardCascades: whatever annotation lets a Namespace or a definition go with what
// others have in it, it does not go with what another shard has there, whatever is found first.
func TestModelShardCascades(t *testing.T) {
	for _, container := range []string{"core/namespaces/a", widgetsCRD.String()} {
		for _, kind := range []string{"core/configmaps", "example.com/widgets"} {
			t.Run(container+" with "+kind, func(t *testing.T) {
				runCrew(t, 2, func(c *crew) {
					a, b := c.falling(1, 2), c.falling(2, 2)
					c.edit(string(a)+"/"+widgetsCRD.String(), 1)
					c.edit(string(a)+"/core/namespaces/a", 1)
					c.mustSettle("placed")
					inside := string(b) + "/example.com/widgets/a/z"
					c.edit(inside, 1)
					c.mustSettle("used")
					c.cluster.mu.Lock()
					id := identityOf(string(a) + "/" + container)
					yes := `"true"`
					c.cluster.set(id.String(), c.cluster.objects[id.String()].edit("kubectl", map[string]*string{fieldPath("metadata", "annotations", v1alpha1.CascadeAnnotation): &yes}))
					theirs := identityOf("x/" + kind + "/a/a") // which is before the other's
					c.cluster.set(theirs.String(), (&thing{id: theirs, kind: servedKind(theirs.Resource).kind, foreign: true}).edit("kubectl", map[string]*string{fieldPath("data", "v"): &yes}))
					c.cluster.mu.Unlock()
					c.drop(string(a) + "/" + container)
					c.mustSettle("let go")
					c.pass(3 * time.Minute)
					c.mustSettle("it stays")
					c.drop(inside)
					c.mustSettle("not used any more")
					c.pass(16 * time.Minute)
					c.mustSettle("in the end")
					c.cluster.mu.Lock()
					defer c.cluster.mu.Unlock()
					if c.cluster.objects[id.String()] != nil {
						t.Errorf("%s stays, and nothing of ours is in it", id)
					}
				})
			})
		}
	}
}

// TestModelShardCascadesUnseen: nor does it go with what another shard may have there of a kind that
// can't be looked at, for now or for good, though something foreign was found besides.
func TestModelShardCascadesUnseen(t *testing.T) {
	services := key.NewResource("", "services")
	for _, how := range []string{"closed", "failing"} {
		for _, first := range []string{"core/configmaps", "batch/jobs"} {
			t.Run(how+", after "+first, func(t *testing.T) {
				runCrew(t, 2, func(c *crew) {
					a, b := c.falling(1, 2), c.falling(2, 2)
					c.edit(string(a)+"/core/namespaces/a", 1)
					c.mustSettle("placed")
					c.edit(string(b)+"/core/services/a/z", 1)
					c.mustSettle("used")
					c.cluster.mu.Lock()
					id, z := identityOf(string(a)+"/core/namespaces/a"), identityOf(string(b)+"/core/services/a/z").String()
					uid := c.cluster.objects[z].uid
					yes := `"true"`
					c.cluster.set(id.String(), c.cluster.objects[id.String()].edit("kubectl", map[string]*string{fieldPath("metadata", "annotations", v1alpha1.CascadeAnnotation): &yes}))
					theirs := identityOf("x/" + first + "/a/a")
					c.cluster.set(theirs.String(), (&thing{id: theirs, kind: servedKind(theirs.Resource).kind, foreign: true}).edit("kubectl", map[string]*string{fieldPath("data", "v"): &yes}))
					c.cluster.closed[services] = how == "closed"
					c.cluster.failing[services] = how == "failing"
					c.cluster.mu.Unlock()
					c.drop(string(a) + "/core/namespaces/a")
					c.pass(10 * time.Minute)
					c.cluster.mu.Lock()
					defer c.cluster.mu.Unlock()
					if ns, now := c.cluster.objects[id.String()], c.cluster.objects[z]; ns == nil || ns.terminating || now == nil || now.uid != uid {
						t.Error("the Namespace goes with what another shard has in it")
					}
				})
			})
		}
	}
}

// TestModelLateWrite: what a request has written that was given up, and was carried out after a later
// one, does not stay: its fields are those of the same manager.
func TestModelLateWrite(t *testing.T) {
	for shards := range 2 {
		runCrew(t, 1+shards, func(c *crew) {
			k := string(c.spaces[0]) + "/core/configmaps/a/x"
			id := identityOf(k).String()
			c.edit(k, 1)
			c.mustSettle("placed")
			c.cluster.mu.Lock()
			late := c.cluster.objects[id].copy()
			c.cluster.mu.Unlock()
			c.edit(k, 2)
			c.mustSettle("changed")
			c.cluster.mu.Lock()
			c.cluster.set(id, late)
			c.cluster.mu.Unlock()
			c.mustSettle("written late")
		})
	}
}

// TestModelShardPurge: what all agents say together is that nothing is left only when nothing
// is, whichever of them is away for a while, is killed, or has in its Namespace what another has
// yet to remove.
func TestModelShardPurge(t *testing.T) {
	for _, how := range []string{"all there", "one away", "one killed", "one with a lost store"} {
		t.Run(how, func(t *testing.T) {
			runCrew(t, 2, func(c *crew) {
				a, b := string(c.falling(1, 2)), string(c.falling(2, 2))
				for _, k := range []string{a + "/" + widgetsCRD.String(), a + "/core/namespaces/a", a + "/core/configmaps/a/x", b + "/core/configmaps/a/y", b + "/example.com/widgets/a/z"} {
					c.edit(k, 1)
				}
				c.mustSettle("placed")
				second := c.running(2)
				switch how {
				case "one away":
					second.line.far.Store(true)
				case "one killed":
					c.cluster.mu.Lock()
					second.line.last = 1
					c.cluster.mu.Unlock()
				case "one with a lost store":
					c.stop(second, false)
					c.stores[2] = c.fresh()
				}
				c.purges()
				for range 40 {
					c.pass(time.Second)
					c.emptied()
				}
				second.line.far.Store(false)
				c.wake()
				c.revive(true)
				for range 120 {
					c.pass(time.Second)
					if c.emptied() {
						return
					}
				}
				t.Error("it does not end")
			})
		})
	}
}

// purges has the hub ask for all to be removed, and desire nothing.
func (c *crew) purges() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(c.hub.content(c.hub.revision))) {
		c.dropOne(k)
	}
	c.hub.settings.Purge = true
	c.hub.start() // sessions end when a purge begins
}

// emptied reports whether all agents report that their purge is complete. It fails if objects remain then.
func (c *crew) emptied() bool {
	c.t.Helper()
	if err := c.wrong(); err != nil {
		c.t.Fatal(err)
	}
	for number := 1; number <= c.hub.shards; number++ {
		l := c.running(number)
		if l == nil || l.line.dead.Load() {
			return false
		}
		if status := l.purge.Status(); status == nil || status.Left > 0 || l.gate.Why() != "" {
			return false
		}
	}
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	for _, o := range c.cluster.objects {
		if !o.foreign {
			c.t.Errorf("nothing is said to be left, and there is %s", o.id)
		}
	}
	return true
}

// TestModelShardStandby: an agent that waits until the one of its shard has ended reports nothing
// meanwhile, and does not go by what it knew when it began to wait. What has completed meanwhile
// does not run again.
func TestModelShardStandby(t *testing.T) {
	runCrew(t, 2, func(c *crew) {
		space := string(c.falling(1, 2))
		job := space + "/batch/jobs/a/j"
		c.edit(space+"/core/configmaps/a/x", 1)
		c.edit(job, 1)
		c.mustSettle("one of each")
		first := c.running(1)
		if err := c.begin(c.fresh(), first.shard); err != nil {
			t.Fatal(err)
		}
		c.pass(10 * time.Second)
		c.edit(space+"/core/configmaps/a/x", 2)
		c.tamper(job, 1, 1)
		c.mustSettle("it has completed")
		c.pass(2 * time.Minute)
		c.mustSettle("sessions of both have come and gone")
		c.tamper(job, 1, 1)
		c.mustSettle("it is cleaned up")
		c.stop(first, false)
		c.mustSettle("the other has taken over")
	})
}
