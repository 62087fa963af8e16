package main

import (
	"fmt"

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
