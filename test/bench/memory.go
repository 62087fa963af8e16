package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/env"
)

// idleProcesses is a hub without objects and an agent without any, started with the run,
// so that they have been at rest when they are looked at.
type idleProcesses struct {
	hub   *env.Hub
	agent *env.Agent
}

func (b *bench) startCalm() error {
	hub := env.StartHub(b.t)
	root, err := newClient(hub.PathConfig("spaces/root"))
	if err != nil {
		return err
	}
	defer root.close()
	join, err := addLocation(b.ctx, root, "calm")
	if err != nil {
		return err
	}
	b.idle = &idleProcesses{hub: hub, agent: env.StartAgent(b.t, "calm", join.Encode(), b.cluster.AgentKubeconfig)}
	return nil
}

// readMemory reads RssAnon of a hub and an agent that have had nothing to do since
// the run began.
func (b *bench) readMemory() error {
	hub, agent := b.idle.hub.Usage(), b.idle.agent.Usage()
	b.report.set("memory.hub", float64(hub.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(hub.RSS))
	b.report.set("memory.agent", float64(agent.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(agent.RSS))
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// growth reads the growth of a hub's memory step by step.
type growth struct {
	bench *bench // with that hub in place of the run's
	// last is the memory after the step before, and rest when the present one ended.
	last int64
	rest time.Time
}

// grown returns what has come to the hub's memory since the step before, in KB for each
// of n. It waits for nothing: it counts what the hub will keep.
func (g *growth) grown(n int) (float64, error) {
	kept, err := g.bench.kept()
	return g.since(kept, n), err
}

// grownAtRest is grown of a hub that has been left alone for as long as it takes to give
// back what it does not use.
func (g *growth) grownAtRest(n int) (float64, error) {
	if err := g.rested(); err != nil {
		return 0, err
	}
	return g.since(g.bench.hub.Usage().RSSAnon, n), nil
}

func (g *growth) since(now int64, n int) float64 {
	before := g.last
	g.last = now
	return float64(now-before) / 1e3 / float64(n)
}

// rested waits until the rest after the step before has been long enough.
func (g *growth) rested() error {
	if !wait(g.bench.ctx, g.bench.size.rest-time.Since(g.rest)) {
		return g.bench.ctx.Err()
	}
	return nil
}

// kept is what RssAnon of the hub comes to once it gives back what it does not use, as it
// does within a minute in which there is little to do: RssAnon after a collection, without
// what Go then holds free.
func (b *bench) kept() (int64, error) {
	whole, err := newClient(b.hub.PathConfig(""))
	if err != nil {
		return 0, err
	}
	defer whole.close()
	const collections = 2 // what is in a pool outlives the first one
	for range collections {
		if _, err := whole.get(b.ctx, route.Profiles+"heap?gc=1"); err != nil {
			return 0, err
		}
	}
	var free float64
	for name, sign := range map[string]float64{"go_memstats_heap_idle_bytes": 1, "go_memstats_heap_released_bytes": -1} {
		bytes, err := metricOf(b.ctx, whole, name)
		if err != nil {
			return 0, err
		}
		free += sign * bytes
	}
	return b.hub.Usage().RSSAnon - int64(free), nil
}

// peak follows the memory of a process.
type peak struct {
	stop, stopped chan struct{}
	most          int64
}

// followPeak reads RssAnon of a process again and again until end is called.
func followPeak(p *env.Process) *peak {
	const every = 50 * time.Millisecond
	k := &peak{stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(k.stopped)
		for {
			k.most = max(k.most, p.Usage().RSSAnon)
			select {
			case <-time.After(every):
			case <-k.stop:
				return
			}
		}
	}()
	return k
}

// end returns the most that there was.
func (k *peak) end() int64 {
	close(k.stop)
	<-k.stopped
	return k.most
}
