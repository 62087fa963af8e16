package main

import (
	"errors"
	"time"
)

// restart ends the hub by SIGKILL and starts it again at once. Agents come back as real ones
// do, which wait twice as long after each attempt that failed, so what they wait is part of
// the time until all are back.
func (f *fullHub) restart() error {
	b := f.bench
	if err := b.calmDown(); err != nil {
		return err
	}
	before, err := b.revision()
	if err != nil {
		return err
	}
	b.hub.Kill()
	f.forgetBacks()
	up, down, sent := f.up.Load(), f.down.Load(), f.sent.Load()
	start := time.Now()
	b.hub.Start()
	ready := time.Since(start)
	last, err := f.allBack(len(f.all))
	if err != nil {
		return err
	}
	cpu := b.hub.Usage().CPU
	if err := b.calmDown(); err != nil {
		return err
	}
	f.rest = time.Now()
	after, err := b.revision()
	if err != nil {
		return err
	}
	n := float64(b.size.sites)
	b.report.set("fleet.restart.ready", ready.Seconds(), "%d objects, %d reports", b.size.sites*b.size.ownEach+b.size.shared, f.pairs())
	b.report.set("fleet.restart.back", last.Sub(start).Seconds(), "%d locations; hub's CPU %.2f s until then", b.size.sites, cpu.Seconds())
	b.report.set("fleet.restart.cpu", cpu.Seconds()/max(f.editCPU, time.Microsecond).Seconds(), "")
	b.report.set("fleet.restart.up", float64(f.up.Load()-up)/1e3/n, "TLS and HTTP included, and the list of what the cluster serves")
	b.report.set("fleet.restart.down", float64(f.down.Load()-down)/1e3/n, "TLS and HTTP included")
	b.report.set("fleet.restart.sent", float64(f.sent.Load()-sent), "")
	b.report.set("fleet.restart.writes", float64(after-before), "%d locations", b.size.sites)
	return nil
}

// restartedFleet reads what the hub holds that was started again, once it has had time to come
// to rest.
func (b *bench) restartedFleet() error {
	if b.full == nil {
		return errors.New("there is no fleet")
	}
	f := b.full
	if err := f.rested(); err != nil {
		return err
	}
	usage := f.bench.hub.Usage()
	b.report.set("fleet.restart.memory", float64(usage.RSSAnon)/1e6, "RSS %s; before %s", megabytes(usage.RSS), megabytes(f.last))
	return nil
}
