package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/test/support/env"
)

// editSteadily edits objects, each of one location, at steady rates, by JSON merge patches of clients that share
// sixteen connections. It times each edit from its due time until the location's agent has the object. If the
// hub can't sustain a rate, the results are the rate that was reached, and the delay of the last edit. With a
// quarter of the edits it measures a stock kube-apiserver at the first rate, with a watch in place of the
// agents. The CPU of each server includes its etcd. That of the hub is measured until the hub is idle, so it
// includes the reports and the writes that follow from them. The stock etcd does not sync to disk, the hub's
// does.
func (f *fullHub) editSteadily() error {
	b := f.bench
	for i, rate := range b.size.rates {
		own, err := f.editAt(rate)
		if err != nil {
			return fmt.Errorf("%d a second: %w", rate, err)
		}
		b.report.point(curveEditP50, float64(rate), quantile(own.took, 0.5))
		b.report.point(curveEditP99, float64(rate), quantile(own.took, 0.99))
		b.report.point(curveEditCPU, float64(rate), own.cpu.Seconds()*1e3)
		if i == 0 {
			f.editCPU = own.cpu
			if err := f.compareEdits(own); err != nil {
				return err
			}
		}
		own.report(b.report, rateIDs()[i])
	}
	return nil
}

// rateIDs are the lines' names by the rate: those of a small run are of lower ones.
func rateIDs() []string { return []string{"fleet.edit", "fleet.edit.500", "fleet.edit.1000"} }

// steadyEdits are what edits at a steady rate took.
type steadyEdits struct {
	rate int
	// took is from when each was due until it was seen, in milliseconds.
	took []float64
	// reached is how many a second there were until the last was seen, behind how long after
	// the last was due that was.
	reached float64
	behind  time.Duration
	// cut are the sessions that the hub ended, cpu and revisions what each edit cost.
	cut       int64
	cpu       time.Duration
	revisions float64
}

// report reports the results of the edits.
func (e *steadyEdits) report(r *report, id string) {
	r.set(id+".p50", quantile(e.took, 0.5), "%d edits, %d a second", len(e.took), e.rate)
	r.set(id+".p99", quantile(e.took, 0.99), "longest %.1f ms", quantile(e.took, 1))
	r.set(id+".rate", e.reached/float64(e.rate), "%.0f a second; CPU %.2f ms for each", e.reached, e.cpu.Seconds()*1e3)
	r.set(id+".behind", e.behind.Seconds(), "")
	r.set(id+".cut", float64(e.cut), "")
}

// editAt edits at a rate.
func (f *fullHub) editAt(rate int) (*steadyEdits, error) {
	b := f.bench
	n := min(b.size.paced, b.size.sites*b.size.ownEach)
	before, err := b.revision()
	if err != nil {
		return nil, err
	}
	cut, cpu := f.cut.Load(), b.hub.Usage().CPU
	e, err := f.paceOwn(n, rate)
	if err != nil {
		return nil, err
	}
	if err := b.calmDown(); err != nil {
		return nil, err
	}
	after, err := b.revision()
	e.cut, e.cpu = f.cut.Load()-cut, (b.hub.Usage().CPU-cpu)/time.Duration(n)
	e.revisions = float64(after-before) / float64(n)
	return e, err
}

// paceOwn edits n own objects.
func (f *fullHub) paceOwn(n, rate int) (*steadyEdits, error) {
	first := f.edited
	f.edited += n
	seen, done := newSightings(f.edited), make(chan error, 1)
	seen.left = n
	go func() {
		// What is not sustained takes several times as long.
		_, err := f.waveWithin(4*lasts(n, rate)+timeLimit, 1, func(a arrival) bool { return seen.see(a.put.Object, a.arrived) })
		done <- err
	}()
	begin, err := paced(f.ctx, workersOf(f.writers), n, rate, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, f.ownObject(first+i), editPatch(first+i))
	})
	if err != nil {
		f.fail(err) // which ends the wave
	}
	if seenErr := <-done; err == nil {
		err = seenErr
	}
	times := seen.times[first:]
	last := slices.MaxFunc(times, time.Time.Compare)
	return &steadyEdits{
		rate: rate, took: paceTimes(begin, rate, times),
		reached: float64(n) / last.Sub(begin).Seconds(), behind: last.Sub(dueAt(begin, n-1, rate)),
	}, err
}

// compareEdits compares edits at a rate with a stock kube-apiserver's.
func (f *fullHub) compareEdits(own *steadyEdits) error {
	b := f.bench
	stock, stockCPU, err := b.paceStock(max(1, len(own.took)/4), own.rate)
	if err != nil {
		return fmt.Errorf("stock kube-apiserver: %w", err)
	}
	b.report.set("fleet.edit.relative", quantile(own.took, 0.5)/quantile(stock, 0.5),
		"stock: p50 %.1f ms, p99 %.1f ms", quantile(stock, 0.5), quantile(stock, 0.99))
	b.report.set("fleet.edit.cpu", own.cpu.Seconds()/max(stockCPU, time.Microsecond).Seconds(),
		"%.2f ms for each edit; stock %.2f ms", own.cpu.Seconds()*1e3, stockCPU.Seconds()*1e3)
	b.report.set("fleet.edit.writes", own.revisions, "%d edits", len(own.took))
	return nil
}

// paceStock does the same with a stock kube-apiserver of its own.
func (b *bench) paceStock(n, rate int) ([]float64, time.Duration, error) {
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
	begin, err := paced(b.ctx, workersOf(clients), n, rate, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, path+"/"+nameOf(i), editPatch(i))
	})
	if err != nil {
		return nil, 0, err
	}
	seen := newSightings(n)
	_, err = w.until(b.ctx, "the edits", func(e event) bool { return seen.see(e.object, e.arrived) })
	return paceTimes(begin, rate, seen.times), (used() - before) / time.Duration(n), err
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
	return eventuallyWithin(f.ctx, timeLimit, "the reports", func() error {
		keys, _ := f.answers.take()
		if n -= keys; n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}
