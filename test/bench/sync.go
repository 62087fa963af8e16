package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

const (
	syncNamespace = "sync"
	bareNamespace = "bare"
)

// fullSync creates objects of 1 KB in a space, and places them at no location. The clock runs from just before a
// label places all of them at one location, until a watch at its cluster has returned the last. In alternating
// rounds a bare client, in a process of its own, applies the same objects server-side to the same cluster, with
// 16 workers over one connection. The same kind of watch stops the clock. The namespaces exist before, and a
// warm-up round of both comes first.
//
// The rate is the median over rounds of bare time / own time. CPU is that of the agent from the label until the
// counts in the space report all objects as applied. It includes receiving, storing, observing and reporting. It
// is compared with the CPU of the bare client from its first request to its last. The note has the same for a
// client without client-go. Writes are those of the agent's user in the cluster's audit log in that time.
func (b *bench) fullSync() error {
	n := b.size.objects
	for _, err := range []error{
		b.namespace(syncNamespace),
		b.space.create(b.ctx, placementsPath, placement(syncNamespace, syncNamespace, "configmaps", labelled("sync"), v1alpha1.ReturnStatusNone)),
	} {
		if err != nil {
			return err
		}
	}
	if _, err := b.bareRound(n); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if _, err := b.syncRound(n, false); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	var own, bare []syncRound
	sides := []func(last bool) error{
		func(bool) error { r, err := b.bareRound(n); bare = append(bare, r); return err },
		func(last bool) error { r, err := b.syncRound(n, last); own = append(own, r); return err },
	}
	for round := range b.size.rounds {
		first, last := round%len(sides), round == b.size.rounds-1
		if err := errors.Join(sides[first](last), sides[1-first](last)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		o, c := own[round], bare[round]
		b.t.Logf("sync of %d: %s, CPU %s, %d writes; bare client %s, CPU %s", n, o.took, o.cpu, o.writes, c.took, c.cpu)
	}
	raw, err := b.bareRound(n, "-raw")
	if err != nil {
		return fmt.Errorf("raw client: %w", err)
	}
	b.placed += n
	b.reportSync(n, own, bare, raw)
	return nil
}

func (b *bench) reportSync(n int, own, bare []syncRound, raw syncRound) {
	var rates, cpus, took, bareTook, cpu []float64
	extra := 0
	for i, o := range own {
		rates = append(rates, bare[i].took.Seconds()/o.took.Seconds())
		cpus = append(cpus, o.cpu.Seconds()/bare[i].cpu.Seconds())
		took, bareTook, cpu = append(took, o.took.Seconds()), append(bareTook, bare[i].took.Seconds()), append(cpu, o.cpu.Seconds())
		extra = max(extra, o.writes-n)
	}
	b.report.add("sync.rate", result{value: median(rates), samples: rates,
		comment: fmt.Sprintf("%d objects in %.2f s; bare client %.2f s", n, median(took), median(bareTook))})
	b.report.set("sync.extra", float64(extra), "%d objects", n)
	b.report.add("sync.cpu", result{value: median(cpus), samples: cpus,
		comment: fmt.Sprintf("%.2f s; %.2fx of a client without client-go", median(cpu), median(cpu)/raw.cpu.Seconds())})
}

// syncRound is what one side took.
type syncRound struct {
	took, cpu time.Duration
	// target is the CPU that the cluster took.
	target time.Duration
	writes int
}

// bareRound has the bare client apply n objects, and deletes them.
func (b *bench) bareRound(n int, flags ...string) (syncRound, error) {
	return b.bareRoundBy(b.cluster.Kubeconfig, n, flags...)
}

// bareRoundBy is bareRound of a client that reaches the cluster by a kubeconfig.
func (b *bench) bareRoundBy(kubeconfig string, n int, flags ...string) (r syncRound, err error) {
	w, err := b.target.watch(b.ctx, configMaps(bareNamespace))
	if err != nil {
		return r, err
	}
	defer w.close()
	c, err := startBare(b.ctx, kubeconfig, bareNamespace, n, flags...)
	if err != nil {
		return r, err
	}
	start, before := time.Now(), b.targetCPU()
	if err := c.begin(); err != nil {
		return r, err
	}
	usage, err := c.end()
	if err != nil {
		return r, err
	}
	last, err := w.count(b.ctx, "ADDED", n) // each event has its time
	if err != nil {
		return r, err
	}
	r = syncRound{took: last.Sub(start), cpu: usage.CPU, target: b.targetCPU() - before}
	if err := b.target.do(b.ctx, http.MethodDelete, configMaps(bareNamespace), "", nil); err != nil {
		return r, err
	}
	_, err = w.count(b.ctx, "DELETED", n)
	return r, err
}

// targetCPU is what the cluster has taken.
func (b *bench) targetCPU() time.Duration {
	return b.cluster.APIServer.Usage().CPU + b.cluster.Etcd.Usage().CPU
}

// syncRound has the agent apply n objects, and deletes them unless they are to stay.
func (b *bench) syncRound(n int, stay bool) (r syncRound, err error) {
	if err := b.fill(syncNamespace, n); err != nil {
		return r, err
	}
	if err := b.waitApplied(syncNamespace, n, 0); err != nil {
		return r, err
	}
	w, err := b.target.watch(b.ctx, configMaps(syncNamespace))
	if err != nil {
		return r, err
	}
	defer w.close()
	before := b.agent.Usage()
	start := time.Now()
	if err := b.root.patch(b.ctx, locationsPath+"/"+site, `{"metadata":{"labels":{"sync":"yes"}}}`); err != nil {
		return r, err
	}
	last, err := w.count(b.ctx, "ADDED", n)
	if err != nil {
		return r, err
	}
	if err := b.waitApplied(syncNamespace, n, n); err != nil {
		return r, err
	}
	r = syncRound{took: last.Sub(start), cpu: b.agent.Usage().CPU - before.CPU}
	r.writes = len(b.cluster.Requests(b.t, env.Filter{User: env.AgentUser, Writes: true, After: start}))
	if stay {
		return r, nil
	}
	return r, b.clearSync(w, n)
}

// clearSync deletes the objects in the space, and then takes the label from the
// location, so that nothing is left that the agent could take for policy.
func (b *bench) clearSync(w *watch, n int) error {
	if err := share(b.ctx, b.writers, n, func(ctx context.Context, c *client, i int) error {
		return c.do(ctx, http.MethodDelete, configMaps(syncNamespace)+"/"+nameOf(i), "", nil)
	}); err != nil {
		return err
	}
	if _, err := w.count(b.ctx, "DELETED", n); err != nil {
		return err
	}
	if err := b.root.patch(b.ctx, locationsPath+"/"+site, `{"metadata":{"labels":{"sync":null}}}`); err != nil {
		return err
	}
	return b.waitApplied(syncNamespace, 0, 0)
}
