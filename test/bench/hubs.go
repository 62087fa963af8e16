package main

import (
	"context"
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
)

// mostHubs is how many hubs share a log at most when they are measured.
const mostHubs = 3

// severalHubs measures the cost of one, two and three hubs that share an etcd of three members: creates of
// ConfigMaps of 2 KB by parallel clients, spread over the hubs, with the CPU of all hubs for each. It also
// measures edits through the first hub, one after the other, until an agent at the last hub has them. No member
// syncs to disk. All processes share the machine, so the rate shows the cost of hubs, not their capacity on
// several machines.
func (b *bench) severalHubs() error {
	s := &sharedLog{bench: b, etcd: env.StartEtcdCluster(b.t, mostHubs)}
	defer s.end()
	for n := 1; n <= mostHubs; n++ {
		if err := s.add(); err != nil {
			return fmt.Errorf("hub %d: %w", n, err)
		}
		if err := s.creates(n); err != nil {
			return fmt.Errorf("creates at %d hubs: %w", n, err)
		}
		if err := s.edits(n); err != nil {
			return fmt.Errorf("edits at %d hubs: %w", n, err)
		}
	}
	return nil
}

// sharedLog is hubs on one etcd. own is the first as a bench has it.
type sharedLog struct {
	*bench
	etcd *env.EtcdCluster
	hubs []*env.Hub
	own  *bench
}

// add starts one more hub.
func (s *sharedLog) add() error {
	if len(s.hubs) > 0 {
		s.hubs = append(s.hubs, s.hubs[0].StartSibling(s.etcd.Flags()...))
		return nil
	}
	hub := env.StartHub(s.t, s.etcd.Flags()...)
	s.hubs = append(s.hubs, hub)
	env.Orrery(s.t, hub.Kubeconfig, "space", "create", spaceName)
	s.own = &bench{t: s.t, ctx: s.ctx, size: s.size, report: s.report, hub: hub}
	s.own.fleet = newFleet(s.own)
	for to, path := range map[**client]string{&s.own.root: "spaces/root", &s.own.space: "spaces/" + spaceName} {
		c, err := newClient(hub.PathConfig(path))
		if err != nil {
			return err
		}
		*to = c
	}
	return nil
}

// end has the agents leave, and ends the hubs.
func (s *sharedLog) end() {
	if s.own != nil {
		s.own.fleet.fail(errMeasured)
		s.own.fleet.running.Wait()
	}
	for _, hub := range s.hubs {
		hub.Kill()
	}
	for _, m := range s.etcd.Members {
		m.Kill()
	}
}

// cpu is what hubs, and members of etcd, have taken.
func (s *sharedLog) cpu() (hubs, etcd time.Duration) {
	for _, hub := range s.hubs {
		hubs += hub.Usage().CPU
	}
	for _, m := range s.etcd.Members {
		etcd += m.Usage().CPU
	}
	return hubs, etcd
}

// creates measures creates.
func (s *sharedLog) creates(n int) error {
	var clients []*client
	for i, hub := range s.hubs {
		mine := s.size.apiClients/n + min(1, max(0, s.size.apiClients%n-i))
		some, err := newClients(s.ctx, hub.PathConfig("spaces/"+spaceName), mine)
		if err != nil {
			return err
		}
		clients = append(clients, some...)
	}
	path := configMaps("default")
	round := func(name string, objects int) (float64, error) {
		began := time.Now()
		err := share(s.ctx, clients, objects, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, path, configMap("default", name+"-"+nameOf(i), 2<<10, "first"))
		})
		return float64(objects) / time.Since(began).Seconds(), err
	}
	if _, err := round(fmt.Sprintf("hubs-%d-warm", n), s.size.apiObjects/10); err != nil {
		return err
	}
	var rates []float64
	hubs, etcd := s.cpu()
	for i := range s.size.apiRounds {
		rate, err := round(fmt.Sprintf("hubs-%d-%d", n, i), s.size.apiObjects)
		if err != nil {
			return err
		}
		rates = append(rates, rate)
	}
	toHubs, toEtcd := s.cpu()
	each := func(d time.Duration) float64 {
		return float64(d.Microseconds()) / 1000 / float64(s.size.apiObjects*s.size.apiRounds)
	}
	s.report.add(fmt.Sprintf("hubs.%d.create", n), result{value: median(rates), samples: rates, comment: fmt.Sprintf("%d clients", len(clients))})
	s.report.set(fmt.Sprintf("hubs.%d.cpu", n), each(toHubs-hubs), "%.2f ms of three members of etcd besides", each(toEtcd-etcd))
	return nil
}

// edits measures edits at the first hub that come to an agent at the last.
func (s *sharedLog) edits(n int) error {
	name := fmt.Sprintf("hubs-%d", n)
	join, err := addLocation(s.ctx, s.own.root, name)
	if err != nil {
		return err
	}
	join.Hub = s.hubs[n-1].URL
	c, err := protocol.NewClient(join)
	if err != nil {
		return err
	}
	fleet := s.own.fleet
	agent, connected := newSimulated(c, fleet.arrivals, fleet.answers), make(chan struct{})
	fleet.running.Go(func() {
		if err := agent.run(fleet.ctx, connected); fleet.ctx.Err() == nil {
			fleet.fail(fmt.Errorf("simulated agent %q: %w", name, err))
		}
	})
	select {
	case <-connected:
	case <-fleet.ctx.Done():
		return context.Cause(fleet.ctx)
	}
	if err := s.own.space.create(s.ctx, "/api/v1/namespaces", namespaceOf(name)); err != nil {
		return err
	}
	if err := s.own.space.create(s.ctx, placementsPath, placement(name, name, "configmaps", named(name), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	path := configMaps(name)
	if _, err := s.own.waveOf(1, "first", func() error {
		return s.own.space.create(s.ctx, path, configMap(name, nameOf(0), 1<<10, "first"))
	}); err != nil {
		return err
	}
	if err := s.own.waitApplied(name, 1, 1); err != nil {
		return err
	}
	all := make([]float64, s.size.edits)
	for i := range all {
		seconds, err := s.own.waveOf(1, fmt.Sprintf("edit-%d", i), func() error {
			return s.own.space.patch(s.ctx, path+"/"+nameOf(0), fmt.Sprintf(`{"data":{"value":"edit-%d"}}`, i))
		})
		if err != nil {
			return err
		}
		all[i] = seconds * 1e3
	}
	s.report.set(fmt.Sprintf("hubs.%d.edit.p50", n), quantile(all, 0.5), "%d edits", len(all))
	s.report.set(fmt.Sprintf("hubs.%d.edit.p99", n), quantile(all, 0.99), "longest %.1f ms", quantile(all, 1))
	return nil
}
