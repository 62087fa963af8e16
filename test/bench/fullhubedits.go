package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/test/env"
)

// editSteadily edits objects that one location each gets, by JSON merge patches of
// clients that share sixteen connections, each object once, at a steady rate, and times
// each edit from when it was due until the location's agent has the object. Then it does
// the same for a quarter of the time with a stock kube-apiserver, where a watch takes the
// place of the agents. CPU is that of each with its etcd, at the hub until all has come to
// rest: it includes the reports that come back and what is written of them. The stock etcd
// does not sync to disk, the hub's does.
func (f *fullHub) editSteadily() error {
	b := f.bench
	n := min(int(float64(b.size.editRate)*b.size.editFor.Seconds()), b.size.sites*b.size.ownEach)
	before, err := b.revision()
	if err != nil {
		return err
	}
	cut, cpu := f.cut.Load(), b.hub.Usage().CPU
	own, err := f.paceOwn(n)
	if err != nil {
		return err
	}
	if err := b.calmDown(); err != nil {
		return err
	}
	f.editCPU = (b.hub.Usage().CPU - cpu) / time.Duration(n)
	after, err := b.revision()
	if err != nil {
		return err
	}
	stock, stockCPU, err := b.paceStock(max(1, n/4))
	if err != nil {
		return fmt.Errorf("stock kube-apiserver: %w", err)
	}
	b.report.set("fleet.edit.p50", quantile(own, 0.5), "%d edits, %d a second", n, b.size.editRate)
	b.report.set("fleet.edit.p99", quantile(own, 0.99), "longest %.1f ms", quantile(own, 1))
	b.report.set("fleet.edit.relative", quantile(own, 0.5)/quantile(stock, 0.5),
		"stock: p50 %.1f ms, p99 %.1f ms", quantile(stock, 0.5), quantile(stock, 0.99))
	b.report.set("fleet.edit.cpu", f.editCPU.Seconds()/max(stockCPU, time.Microsecond).Seconds(),
		"%.2f ms for each edit; stock %.2f ms", f.editCPU.Seconds()*1e3, stockCPU.Seconds()*1e3)
	b.report.set("fleet.edit.writes", float64(after-before)/float64(n), "%d revisions", after-before)
	b.report.set("fleet.edit.cut", float64(f.cut.Load()-cut), "%d locations", b.size.sites)
	return nil
}

// paceOwn edits n own objects and returns how long each took to be there.
func (f *fullHub) paceOwn(n int) ([]float64, error) {
	seen, done := newSightings(n), make(chan error, 1)
	go func() {
		_, err := f.waveWithin(f.bench.size.editFor+patience, 1, func(a arrival) bool { return seen.see(a.put.Object, a.at) })
		done <- err
	}()
	begin, err := paced(f.ctx, workersOf(f.writers), n, f.bench.size.editRate, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, f.ownObject(i), editPatch(i))
	})
	if err != nil {
		f.fail(err) // which ends the wave
	}
	if seenErr := <-done; err == nil {
		err = seenErr
	}
	return paceTimes(begin, f.bench.size.editRate, seen.at), err
}

// paceStock does the same with a stock kube-apiserver of its own.
func (b *bench) paceStock(n int) ([]float64, time.Duration, error) {
	stock := env.StartCluster(b.t, "paced", env.APIOnly(), env.APIServerArgs("--audit-log-path=", "--audit-policy-file="))
	defer stock.Stop()
	const connections = 16
	clients, err := newClients(b.ctx, stock.Config, connections)
	if err != nil {
		return nil, 0, err
	}
	path := configMaps("default")
	if err := share(b.ctx, clients, n, func(ctx context.Context, c *client, i int) error {
		return c.create(ctx, path, configMap("default", nameOf(i), 2<<10, "wanted"))
	}); err != nil {
		return nil, 0, err
	}
	w, err := clients[0].watch(b.ctx, path)
	if err != nil {
		return nil, 0, err
	}
	defer w.close()
	used := func() time.Duration { return stock.APIServer.Usage().CPU + stock.Etcd.Usage().CPU }
	before := used()
	begin, err := paced(b.ctx, workersOf(clients), n, b.size.editRate, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, path+"/"+nameOf(i), editPatch(i))
	})
	if err != nil {
		return nil, 0, err
	}
	seen := newSightings(n)
	_, err = w.until(b.ctx, "the edits", func(e event) bool { return seen.see(e.object, e.at) })
	return paceTimes(begin, b.size.editRate, seen.at), (used() - before) / time.Duration(n), err
}

// editShared edits objects that all locations get, one edit when all agents have reported
// the one before, and times each from just before the request until the last agent has it.
func (f *fullHub) editShared() error {
	b, n := f.bench, f.bench.size.sharedEdits
	took := make([]float64, 0, n)
	if err := b.calmDown(); err != nil {
		return err
	}
	f.answers.take()
	cpu := b.hub.Usage().CPU
	for i := range n {
		value := fmt.Sprintf("wave-%d", i)
		quick := []byte(`"` + value + `"`)
		start := time.Now()
		if err := b.space.patch(b.ctx, configMaps("default")+"/"+sharedObject(i%b.size.shared), fmt.Sprintf(`{"data":{"value":%q}}`, value)); err != nil {
			return err
		}
		last, err := f.wave(b.size.sites, func(a arrival) bool {
			return bytes.Contains(a.put.Object, quick) && gjson.GetBytes(a.put.Object, "data.value").String() == value
		})
		if err != nil {
			return err
		}
		took = append(took, float64(last.Sub(start))/float64(time.Millisecond))
		if err := f.reported(b.size.sites); err != nil {
			return err
		}
	}
	if err := b.calmDown(); err != nil {
		return err
	}
	each := (b.hub.Usage().CPU - cpu) / time.Duration(n*b.size.sites)
	b.report.set("fleet.shared.p50", quantile(took, 0.5), "%d edits to %d locations", n, b.size.sites)
	b.report.set("fleet.shared.p99", quantile(took, 0.99), "longest %.1f ms", quantile(took, 1))
	b.report.set("fleet.shared.cpu", each.Seconds()/max(f.editCPU, time.Microsecond).Seconds(), "%.3f ms for each location", each.Seconds()*1e3)
	return nil
}

// reported waits until the hub has taken n reports.
func (f *fullHub) reported(n int) error {
	return eventuallyWithin(f.ctx, patience, "the reports", func() error {
		keys, _ := f.answers.take()
		if n -= keys; n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}
