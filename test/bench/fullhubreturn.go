package main

import (
	"fmt"
	"time"
)

// reconnectAll closes the connections of all agents, which connect again at once, without the usual wait of
// agents. It times each round until the last location is in sync and its agent has sent its first requests of a
// session. In alternating rounds as many clients connect to a server that does no work. Meanwhile a user of the
// first space reads. Before that, a quarter and a half of the agents reconnect, for the curve.
func (f *fullHub) reconnectAll() error {
	b := f.bench
	bare, err := startBareConnections()
	if err != nil {
		return err
	}
	defer bare.close()
	space := b.hub.PathConfig("spaces/" + stateSpace(0))
	baseline, err := newReader(b.ctx, space)
	if err != nil {
		return err
	}
	baseline.start(b.ctx)
	if !wait(b.ctx, b.size.quietTime) {
		return b.ctx.Err()
	}
	if err := baseline.stop(); err != nil {
		return err
	}
	busy, err := newReader(b.ctx, space)
	if err != nil {
		return err
	}
	var took, plain, ratios []float64
	var cpu time.Duration
	var up, down, sent int64
	for _, n := range stages(b.size.sites) {
		took, plain, ratios = nil, nil, nil
		cpu, up, down, sent = b.hub.Usage().CPU, f.up.Load(), f.down.Load(), f.sent.Load()
		for range b.size.reconnects {
			seconds, err := f.comeBack(n, busy)
			if err != nil {
				return err
			}
			took = append(took, seconds)
			if n > mostBare {
				continue
			}
			least, err := bare.time(b.ctx, n)
			if err != nil {
				return err
			}
			plain, ratios = append(plain, least), append(ratios, seconds/least)
		}
		b.report.point(curveReconnect, float64(n), median(took))
		if len(plain) > 0 {
			b.report.point(curveBare, float64(n), median(plain))
		}
	}
	n := float64(b.size.sites * b.size.reconnects)
	each := (b.hub.Usage().CPU - cpu).Seconds() * 1e3 / n
	b.report.add("fleet.reconnect.time", result{value: median(took), samples: took, comment: fmt.Sprintf("%d locations; hub's CPU %.2f ms for each", b.size.sites, each)})
	if len(ratios) > 0 {
		b.report.add("fleet.reconnect.relative", result{value: median(ratios), samples: ratios, comment: fmt.Sprintf("the bare ones %.2f s", median(plain))})
	}
	b.report.set("fleet.reconnect.up", float64(f.up.Load()-up)/1e3/n, "TLS and HTTP included")
	b.report.set("fleet.reconnect.down", float64(f.down.Load()-down)/1e3/n, "TLS and HTTP included")
	b.report.set("fleet.reconnect.sent", float64(f.sent.Load()-sent), "")
	for id, readers := range map[string][2][]time.Duration{"fleet.reconnect.get": {busy.gets, baseline.gets}, "fleet.reconnect.list": {busy.lists, baseline.lists}} {
		during, before := milliseconds(readers[0]), milliseconds(readers[1])
		b.report.set(id, quantile(during, 0.99), "p50 %.1f ms, of %d; at rest p50 %.1f ms, p99 %.1f ms",
			quantile(during, 0.5), len(during), quantile(before, 0.5), quantile(before, 0.99))
	}
	return nil
}

// comeBack has n agents connect anew while a user reads, and returns the seconds until
// all are back.
func (f *fullHub) comeBack(n int, user *reader) (float64, error) {
	f.forgetBacks()
	user.start(f.ctx)
	start := time.Now()
	for _, k := range f.all[:n] {
		k.drop()
	}
	last, err := f.allBack(n)
	if stopped := user.stop(); err == nil {
		err = stopped
	}
	return last.Sub(start).Seconds(), err
}
