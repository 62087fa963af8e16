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

// TestRandomShards kills, stops, pauses and evicts agents, changes the number of shards, and kills
// the hub, in random order. All objects become as desired, and none is created twice. Each write
// comes from an agent whose shard contains the space, and never from one of a former number of shards.
func TestRandomShards(t *testing.T) {
	t.Parallel()
	w := &team{site: newSite(t), agents: map[int]*env.Agent{}}
	w.share(2)
	w.converged()
	for round := range seeds.Count(t, 2) {
		for step := range 3 {
			w.rand = seeds.Rand(t, uint64(3*round+step)) // later steps do not depend on what this one draws
			w.step()
			w.made++
			w.edit(fmt.Sprintf("%d-%d", round, w.made))
		}
		w.converged()
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
	steps   []string
}

// log records a step for failure messages.
func (w *team) log(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf(format, args...))
	w.t.Logf(format, args...)
}

// share divides the location into n shards, each with an agent, after the agents of the former shards
// have ended.
func (w *team) share(n int) {
	w.t.Helper()
	if w.shards > 0 {
		w.converged()
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

// step disturbs one agent, all agents or the hub.
func (w *team) step() {
	w.t.Helper()
	w.wholeAgain()
	number := 1 + w.rand.IntN(w.shards)
	a := w.agents[number]
	switch w.rand.IntN(7) {
	case 0:
		w.log("kill %d", number)
		a.Kill()
		a.Start()
	case 1:
		w.log("stop %d", number)
		a.Restart()
	case 2:
		long := time.Duration(w.rand.Int64N(int64(3 * wait)))
		w.log("pause %d until its Lease was not renewed for %s", number, long)
		a.Signal(syscall.SIGSTOP)
		w.unrenewed(number, long)
		a.Signal(syscall.SIGCONT)
	case 3:
		w.log("evict %d", number)
		w.evict(number)
		w.outdated(a)
	case 4:
		w.log("kill the hub")
		w.hub.Kill()
		w.hub.Start()
	default:
		n := 2 + (w.shards-2+1+w.rand.IntN(2))%3 // another one of 2, 3 and 4
		w.log("%d shards instead of %d", n, w.shards)
		w.share(n)
	}
}

// converged waits until each object equals its source. It restarts an agent that exits because its
// store is outdated, as a Deployment or a service manager does.
func (w *team) converged() {
	w.t.Helper()
	env.Eventually(w.t, soon, func() error {
		w.wholeAgain()
		return w.differences()
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

// inOrder checks in the audit log that each object was written only by agents whose shard contains
// its space, and that no agent wrote after an agent of a later number of shards.
func (w *team) inOrder() {
	w.t.Helper()
	for _, space := range w.spaces {
		index := 0 // in the history
		for _, e := range w.Cluster.AllRequests(w.t, env.Filter{UserAgent: "orrery-agent/", Writes: true, Resource: "configmaps", Namespace: string(space)}) {
			if strings.Contains(e.RequestURI, "dryRun") || e.Response.Code >= 400 {
				continue
			}
			_, text, _ := strings.Cut(e.UserAgent, "(shard ")
			shard, err := key.ParseShard(strings.TrimSuffix(text, ")"))
			if err != nil || !shard.Contains(space) {
				w.t.Errorf("%s of space %s was written by %s", e.RequestURI, space, e.UserAgent)
				continue
			}
			for index < len(w.history) && w.history[index] != shard.Total() {
				index++
			}
			if index == len(w.history) {
				w.t.Fatalf("the agent of one of %d shards wrote to space %s after the agents of a later number of shards: %v\n%s", shard.Total(), space, w.history, strings.Join(w.steps, "\n"))
			}
		}
	}
}
