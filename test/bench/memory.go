package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/test/env"
)

// calm is a hub without objects and an agent without any, started with the run,
// so that they have been at rest when they are looked at.
type calm struct {
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
	b.calm = &calm{hub: hub, agent: env.StartAgent(b.t, "calm", join.Encode(), b.cluster.AgentKubeconfig)}
	return nil
}

// readMemory reads RssAnon of a hub and an agent that have had nothing to do since
// the run began.
func (b *bench) readMemory() error {
	hub, agent := b.calm.hub.Usage(), b.calm.agent.Usage()
	b.report.set("memory.hub", float64(hub.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(hub.RSS))
	b.report.set("memory.agent", float64(agent.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(agent.RSS))
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// growth reads what comes to a hub's memory step by step.
type growth struct {
	bench *bench // with that hub in place of the run's
	// last is RssAnon after the step before, and rest when the present one ended.
	last int64
	rest time.Time
}

// grown waits for the rest to end, and returns what has come to the hub's memory
// since the step before, in KB for each of n.
func (g *growth) grown(n int) (float64, error) {
	if err := g.rested(); err != nil {
		return 0, err
	}
	before := g.last
	g.last = g.bench.hub.Usage().RSSAnon
	return float64(g.last-before) / 1e3 / float64(n), nil
}

// rested waits until the rest after the step before has been long enough.
func (g *growth) rested() error {
	if !wait(g.bench.ctx, g.bench.size.idle-time.Since(g.rest)) {
		return g.bench.ctx.Err()
	}
	return nil
}
