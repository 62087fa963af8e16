package fencing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

var spaces = []key.Space{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}

// actor is one process of an agent.
type actor struct {
	*Fence
	name string
	end  func(clean bool)
}

func startActor(t *testing.T, c *cluster, name string, shard key.Shard) *actor {
	return startBy(t, c, Config{Shard: shard, Holder: name})
}

// startBy starts an agent that keeps its Lease at a cluster.
func startBy(t *testing.T, c *cluster, config Config) *actor {
	config.Leases, config.Namespace, config.Log, config.Changed = c, "orrery-system", slog.New(slog.DiscardHandler), func(string) {}
	fence := New(config)
	fence.Identify("paris.0a1b2c3d")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fence.Run(ctx)
	}()
	return &actor{fence, config.Holder, func(clean bool) {
		cancel()
		<-done
		if clean {
			fence.Release(context.WithoutCancel(ctx))
		}
	}}
}

// TestNoTwoAct: of agents of one and of several numbers of shards that begin, end, are killed,
// lose their Leases to an operator, and whose requests hang or are lost, no two ever act for a
// space at a time; and when all that is over, those that are left act.
func TestNoTwoAct(t *testing.T) {
	rounds, acted := 0, 0
	for seed := range seeds.All(t, 60) {
		rounds++
		synctest.Test(t, func(t *testing.T) { acted += schedule(t, uint64(seed)) })
	}
	if acted < rounds*10 {
		t.Errorf("in %d schedules agents acted at %d moments only", rounds, acted)
	}
}

func schedule(t *testing.T, seed uint64) (acted int) {
	c, r := newCluster(seed), rand.New(rand.NewPCG(seed, 2))
	c.bad = r.IntN(12)
	var all []*actor
	steps := 0
	for range 40 {
		switch n := r.IntN(10); {
		case n < 4 && len(all) < 6:
			count := 2 + r.IntN(2)
			steps++
			all = append(all, startActor(t, c, fmt.Sprint("agent ", steps), key.NewShard(1+r.IntN(count), count)))
		case n < 6 && len(all) > 0:
			i := r.IntN(len(all))
			go all[i].end(r.IntN(2) == 0)
			all = append(all[:i:i], all[i+1:]...)
		case n < 7:
			c.evict(r.IntN(3))
		}
		for range 1 + r.IntN(200) {
			<-time.After(100 * time.Millisecond)
			acted += check(t, all)
		}
	}
	// In the end two are there, and each of their Leases is evicted if it stands.
	for _, a := range all {
		a.end(true)
	}
	c.mu.Lock()
	c.bad = 0
	c.mu.Unlock()
	for range 10 {
		c.evict(0)
	}
	last := []*actor{startActor(t, c, "first", key.NewShard(1, 2)), startActor(t, c, "second", key.NewShard(2, 2))}
	<-time.After(noticeTimes*DefaultDuration + DefaultDuration)
	for _, a := range last {
		if _, _, err := a.Held(); err != nil {
			t.Errorf("%s does not act in the end: %v", a.name, err)
		}
		a.end(true)
	}
	for _, l := range c.all {
		if holderOf(l) != "" {
			t.Errorf("%s is held by %s, which has ended", l.Name, holderOf(l))
		}
	}
	return acted
}

// check fails if two agents act for one space. It returns how many act.
func check(t *testing.T, all []*actor) (acting int) {
	t.Helper()
	who := map[key.Space]string{}
	for _, a := range all {
		if _, _, err := a.Held(); err != nil {
			continue
		}
		acting++
		for _, space := range spaces {
			if !a.config.Shard.Contains(space) {
				continue
			}
			if other := who[space]; other != "" {
				t.Fatalf("%s and %s (%s) act for space %s", other, a.name, a.config.Shard, space)
			}
			who[space] = a.name
		}
	}
	return acting
}
