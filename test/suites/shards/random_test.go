package shards

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
)

// TestRandomShards: agents are killed, stopped, paused, evicted and given another number of
// shards, and the hub is killed, in random order. Objects always become what they should be,
// none is made anew, and none is written by an agent of a shard that does not have its space,
// or of a number of shards that another has followed.
func TestRandomShards(t *testing.T) {
	t.Parallel()
	w := &team{site: newSite(t), agents: map[int]*env.Agent{}}
	w.share(2)
	w.settled()
	for round := range seeds.Count(t, 2) {
		for step := range 3 {
			w.rand = seeds.Rand(t, uint64(3*round+step)) // later steps do not depend on what this one draws
			w.step()
			w.made++
			w.edit(fmt.Sprintf("%d-%d", round, w.made))
		}
		w.settled()
	}
	w.kept()
	w.inOrder()
}

// team are the agents that share a location, by the numbers of their shards.
type team struct {
	*site
	rand   *rand.Rand
	agents map[int]*env.Agent
	shards int
	// history has each number of shards, in order.
	history []int
	told    []string
}

func (w *team) tell(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf(format, args...))
	w.t.Logf(format, args...)
}

// share has so many agents share the location, once all of the former have ended.
func (w *team) share(n int) {
	w.t.Helper()
	if w.shards > 0 {
		w.settled()
	}
	for number := 1; number <= key.MaxShards; number++ {
		if a := w.agents[number]; a != nil && a.Running() {
			w.sent(a)
			a.Stop()
		}
	}
	w.orrery("location", "shards", location, fmt.Sprint(n))
	w.shards, w.history = n, append(w.history, n)
	for number := 1; number <= n; number++ {
		shard := fmt.Sprintf("%d/%d", number, n)
		if w.agents[number] == nil {
			w.agents[number] = w.agent(shard, w.Cluster.AgentKubeconfig)
		} else {
			w.again(w.agents[number], shard)
		}
	}
}

// step does something to one of the agents, or to all.
func (w *team) step() {
	w.t.Helper()
	w.wholeAgain()
	number := 1 + w.rand.IntN(w.shards)
	a := w.agents[number]
	switch w.rand.IntN(7) {
	case 0:
		w.tell("kill %d", number)
		a.Kill()
		a.Start()
	case 1:
		w.tell("stop %d", number)
		a.Restart()
	case 2:
		long := time.Duration(w.rand.Int64N(int64(3 * wait)))
		w.tell("pause %d until its Lease was not renewed for %s", number, long)
		a.Signal(syscall.SIGSTOP)
		w.unrenewed(number, long)
		a.Signal(syscall.SIGCONT)
	case 3:
		w.tell("evict %d", number)
		w.evict(number)
		w.outdated(a)
	case 4:
		w.tell("kill the hub")
		w.hub.Kill()
		w.hub.Start()
	default:
		n := 2 + (w.shards-2+1+w.rand.IntN(2))%3 // another one of 2, 3 and 4
		w.tell("%d shards instead of %d", n, w.shards)
		w.share(n)
	}
}

// settled waits until each object is as its space has it. An agent that ends by itself, since its
// store can't be gone by, is started again, as by whatever runs agents.
func (w *team) settled() {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		w.wholeAgain()
		return w.settling()
	})
}

// wholeAgain has all agents of the present number of shards run.
func (w *team) wholeAgain() {
	w.t.Helper()
	for number := 1; number <= w.shards; number++ {
		if a := w.agents[number]; !a.Running() {
			a.Start()
		}
	}
}

// inOrder checks by the audit log that each object was only ever written by agents that have
// its space, of one number of shards after the other.
func (w *team) inOrder() {
	w.t.Helper()
	for _, space := range w.spaces {
		at := 0 // in the history
		for _, e := range w.Cluster.AllRequests(w.t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "configmaps", Namespace: string(space)}) {
			if strings.Contains(e.RequestURI, "dryRun") || e.Response.Code >= 400 {
				continue
			}
			_, of, _ := strings.Cut(e.UserAgent, "(shard ")
			shard, err := key.ParseShard(strings.TrimSuffix(of, ")"))
			if err != nil || !shard.Has(space) {
				w.t.Errorf("%s of space %s was written by %s", e.RequestURI, space, e.UserAgent)
				continue
			}
			for at < len(w.history) && w.history[at] != shard.Of() {
				at++
			}
			if at == len(w.history) {
				w.t.Fatalf("space %s was written as one of %d shards after others had followed: %v\n%s", space, shard.Of(), w.history, strings.Join(w.told, "\n"))
			}
		}
	}
}
