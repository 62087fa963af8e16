package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/env"
)

// calm is a hub without objects and an agent without any, started with the run.
type calm struct {
	hub    *env.Hub
	agent  *env.Agent
	loaded time.Time // when the agent of the site had its objects
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
	b.calm = &calm{hub: hub, agent: env.StartAgent(b.t, "calm", join.Encode(), b.cluster.AgentKubeconfig), loaded: time.Now()}
	return nil
}

// loadAgent places many more objects of 1 KB at the site, for readMemory.
func (b *bench) loadAgent() error {
	const namespace = "memory"
	n := b.size.loaded
	if err := b.namespace(namespace); err != nil {
		return err
	}
	if err := b.fill(namespace, n); err != nil {
		return err
	}
	err := b.place(namespace, "configmaps", n, v1alpha1.ReturnStatusNone)
	b.calm.loaded = time.Now()
	return err
}

// readMemory reads RssAnon of a hub and an agent that have had nothing to do since
// the run began, and of the site's agent once it has had size.idle of rest since
// its last object came; other measurements fill that time. What an object costs
// is the difference of the two agents, divided by the objects of the second.
func (b *bench) readMemory() error {
	if !wait(b.ctx, b.size.idle-time.Since(b.calm.loaded)) {
		return b.ctx.Err()
	}
	rested := time.Since(b.calm.loaded).Round(time.Second)
	hub, idle, loaded := b.calm.hub.Usage(), b.calm.agent.Usage(), b.agent.Usage()
	b.report.set("memory.hub", float64(hub.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(hub.RSS))
	b.report.set("memory.agent", float64(idle.RSSAnon)/1e6, "RSS %s, at rest since the start", megabytes(idle.RSS))
	b.report.set("memory.object", float64(loaded.RSSAnon-idle.RSSAnon)/1e3/float64(b.placed),
		"%d objects: %s, RSS %s, at rest for %s", b.placed, megabytes(loaded.RSSAnon), megabytes(loaded.RSS), rested)
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
