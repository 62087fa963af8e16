package main

import (
	"context"
	"time"
)

// returnLate has all agents be away while one of the objects that each alone gets, and one
// that all get, are edited, and then connect at once. The last has to have what it missed.
func (f *fullHub) returnLate() error {
	b := f.bench
	f.forgetBacks()
	back := make(chan struct{})
	for _, k := range f.all {
		k.leave(back, false)
	}
	first := f.edited
	f.edited += b.size.sites
	if err := share(b.ctx, f.writers, b.size.sites, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, f.ownObject(first+i), editPatch(first+i))
	}); err != nil {
		return err
	}
	if err := b.space.patch(b.ctx, configMaps("default")+"/"+sharedObject(0), `{"data":{"value":"meanwhile"}}`); err != nil {
		return err
	}
	defer f.drain()()
	sent, start := f.sent.Load(), time.Now()
	close(back)
	last, err := f.allBack(len(f.all))
	if err != nil {
		return err
	}
	if err := f.settledAll(); err != nil {
		return err
	}
	const each = 2
	b.report.set("fleet.late.time", last.Sub(start).Seconds(), "%d locations", b.size.sites)
	b.report.set("fleet.late.sent", float64(f.sent.Load()-sent)-float64(each*b.size.sites), "%d objects sent", f.sent.Load()-sent)
	return nil
}

// returnEmpty has agents connect at once that have lost all that they had: they compare, and
// fetch everything. It is done by a quarter and a half of them, too, for the curve.
func (f *fullHub) returnEmpty() error {
	b := f.bench
	defer f.drain()()
	for _, n := range stages(b.size.sites) {
		if err := b.calmDown(); err != nil {
			return err
		}
		before, err := b.kept()
		if err != nil {
			return err
		}
		f.forgetBacks()
		sent, down, cpu := f.sent.Load(), f.down.Load(), b.hub.Usage().CPU
		most := followPeak(b.hub.Process)
		start := time.Now()
		for _, k := range f.all[:n] {
			k.leave(nil, true)
		}
		last, err := f.allBack(n)
		peak := most.end()
		if err != nil {
			return err
		}
		took, bytes, spent := last.Sub(start).Seconds(), float64(f.down.Load()-down)/1e6, b.hub.Usage().CPU-cpu
		want := n * (b.size.ownEach + b.size.shared)
		b.report.point(curveReconnectLost, float64(n), took)
		b.report.set("fleet.empty.time", took, "%d locations, %.0f MB, hub's CPU %.2f s", n, bytes, spent.Seconds())
		b.report.set("fleet.empty.sent", float64(f.sent.Load()-sent)-float64(want), "%d objects sent", want)
		b.report.set("fleet.empty.memory", float64(peak)/float64(before), "at most %s, before %s", megabytes(peak), megabytes(before))
	}
	return b.calmDown()
}
