package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestModelGuard removes random numbers of objects from a location, by policy or by
// deletion, some or all of a Placement's or of a space's, with kills and time in between.
// The pending removals are, object by object, those of a naive count, and all other removals are
// carried out.
func TestModelGuard(t *testing.T) {
	for seed := range seeds.All(t, 10) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			g := &guardModel{
				world: newWorldOf(t, seed, dir, []key.Placing{key.Same, key.Prefixed}[seed%2]), rng: rand.New(rand.NewPCG(uint64(seed), 9)),
				wanted: map[string]bool{}, held: map[string]bool{},
			}
			defer g.stop(true)
			g.play(seed)
			if t.Failed() {
				t.Logf("seed %d: %v", seed, g.story[max(0, len(g.story)-20):])
			}
		})
	}
}

// guardModel is a world with many objects and their expected state.
type guardModel struct {
	*world
	rng *rand.Rand
	// wanted are desired keys, held those whose removal waits.
	wanted, held map[string]bool
	// let are the times of removals by policy that did not wait.
	let []time.Time
}

func (g *guardModel) play(seed int) {
	percent := []int{1, 10, 50, 100}[g.rng.IntN(4)]
	g.hub.mu.Lock()
	g.hub.settings.PruneMaxPercent = percent
	g.hub.mu.Unlock()
	for range 55 + g.rng.IntN(60) {
		g.add()
	}
	g.compare("at first")
	for step := range uint64(9) {
		g.rng = rand.New(rand.NewPCG(uint64(seed), 100+step)) // later steps do not depend on what this one draws
		var what string
		switch g.rng.IntN(9) {
		case 0, 1:
			n := 1 + g.rng.IntN(60)
			for _, k := range g.some(n) {
				g.take(k, wire.Unassigned, percent)
			}
			what = fmt.Sprintf("%d unassigned", n)
		case 2:
			for _, k := range g.some(1 + g.rng.IntN(20)) {
				g.take(k, wire.Deleted, percent)
			}
			what = "some deleted"
		case 3:
			d := time.Duration(g.rng.IntN(12)) * time.Minute
			<-time.After(d)
			what = fmt.Sprintf("%s later", d)
		case 4:
			g.start(g.stop(false))
			g.add()
			what = "killed"
		case 5:
			placement := placements[g.rng.IntN(len(placements))]
			for _, k := range g.some(len(g.wanted)) {
				if placedBy(k) == placement {
					g.take(k, wire.Deleted, percent)
				}
			}
			what = "deleted Placement " + placement
		case 6:
			all := g.some(len(g.wanted))
			for _, k := range all {
				g.take(k, wire.Unassigned, percent)
			}
			for range all {
				g.add()
			}
			what = "made the space again"
		case 7:
			placement := placements[g.rng.IntN(len(placements))]
			g.confirm(wire.Confirmation{Space: "s", Digest: g.agent.store.Meta().Guarded[store.GuardGroup("s/"+placement)].Digest()})
			maps.DeleteFunc(g.held, func(k string, _ bool) bool { return placedBy(k) == placement })
			what = "confirmed those of Placement " + placement
		default:
			g.confirm(wire.Confirmation{Digest: g.agent.store.Meta().Guarded.Total().Digest()})
			clear(g.held)
			what = "confirmed"
		}
		g.compare(what)
	}
}

// placements are those by which objects are placed.
var placements = []string{"p0", "p1", "p2"}

// placedBy is the Placement of a key.
func placedBy(k string) string { return placements[int(k[len(k)-1])%len(placements)] }

// confirm makes the hub confirm the removals of a digest.
func (g *guardModel) confirm(c wire.Confirmation) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.hub.settings.Confirm = []wire.Confirmation{c}
	g.hub.say()
}

// some are keys that are desired.
func (g *guardModel) some(n int) []string {
	var all []string
	for k := range g.wanted {
		all = append(all, k)
	}
	slices.Sort(all)
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// guarded is one of the objects.
func guarded(name string) key.Object {
	return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "a", Name: name}}
}

func (g *guardModel) add() {
	o := guarded(fmt.Sprintf("m%03d", g.rng.IntN(200)))
	k := o.Path()
	g.is(o)
	if g.wanted[k] {
		return
	}
	g.wanted[k] = true
	delete(g.held, k)
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.put(k, wire.Frame{}, 7, 1)
}

// take makes the hub no longer desire an object, and counts it.
func (g *guardModel) take(k string, cause wire.Cause, percent int) {
	delete(g.wanted, k)
	if cause == wire.Unassigned {
		recent := 1
		for _, removedAt := range g.let {
			if time.Since(removedAt) < 10*time.Minute {
				recent++
			}
		}
		if recent > 50 && recent > (len(g.wanted)+recent)*percent/100 {
			g.held[k] = true
		} else {
			g.let = append(g.let, time.Now())
		}
	}
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	f := del(k, cause)
	f.Del.Placement = placedBy(k)
	g.hub.write(f)
}

// compare compares the cluster with the expected state after all changes.
func (g *guardModel) compare(after string) {
	g.t.Helper()
	<-time.After(75 * time.Second) // removals within a minute are counted as one moment's
	synctest.Wait()
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.cluster.mu.Lock()
	defer g.cluster.mu.Unlock()
	there := map[string]bool{}
	for _, o := range g.cluster.objects {
		if one := guarded(o.id.Name); o.id == g.placing.TargetIdentity(one) {
			there[one.Path()] = true
		}
	}
	for k := range there {
		if !g.wanted[k] && !g.held[k] {
			g.t.Errorf("%s: %s is still there", after, k)
		}
	}
	for k := range g.wanted {
		if !there[k] {
			g.t.Errorf("%s: %s is missing", after, k)
		}
	}
	for k := range g.held {
		if r := g.hub.reports[k]; !there[k] || r.State != wire.Removing || r.Reason != "PruneGuard" {
			g.t.Errorf("%s: %s should wait; there: %v, reported %s/%s", after, k, there[k], r.State, r.Reason)
		}
	}
	if len(g.bad) > 0 {
		g.t.Error(g.bad)
	}
}

// TestModelConfirmedOnce confirms removals that cannot be made at the time, and whose
// objects are desired again meanwhile. When the same objects are to be removed once more,
// they wait.
func TestModelConfirmedOnce(t *testing.T) {
	for name, space := range map[string]string{"operator": "", "owner": "s"} {
		t.Run(name, func(t *testing.T) {
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
				for len(g.wanted) < 130 {
					g.add()
				}
				g.compare("at first")
				unassign := func(what string, all []string) {
					for _, k := range all {
						g.take(k, wire.Unassigned, 1)
					}
					g.compare(what)
				}
				all := g.some(110)
				unassign("50 unassigned", all[:50])
				unassign("60 more unassigned", all[50:])

				g.onCluster(func(c *cluster) { c.weather = weather{dark: true} })
				g.confirm(wire.Confirmation{Space: space, Digest: g.agent.store.Meta().Guarded.Total().Digest()})
				<-time.After(time.Minute)
				if n := g.agent.Status().Guarded; n > 0 {
					t.Fatalf("%d removals wait that are confirmed", n)
				}
				for _, k := range all[50:] {
					g.wanted[k] = true
					delete(g.held, k)
					g.hub.mu.Lock()
					g.put(k, wire.Frame{}, 7, 1)
					g.hub.mu.Unlock()
				}
				<-time.After(time.Minute)
				g.endFaults()
				g.compare("wanted again")
				unassign("unassigned again", all[50:])
				if n := g.agent.Status().Guarded; n != len(g.held) || n == 0 {
					t.Errorf("%d removals wait, not %d", n, len(g.held))
				}
			})
		})
	}
}
