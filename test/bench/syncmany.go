package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
)

// manyNamespace has the objects of 1 KB that come to the site at once. It sorts last, so that
// an agent that starts looks at them last.
const manyNamespace = "whole"

// syncMany has many objects in the space that no location has. The clock runs from just
// before a label makes the site have all of them until a watch at its cluster has shown the
// last, as in fullSync. Just before and after that, the bare client applies a tenth as many
// to the same cluster, and the rates are compared: as many again would take minutes, and
// its rate does not depend on how many they are.
func (b *bench) syncMany() error {
	n := b.size.many
	if err := b.namespace(manyNamespace); err != nil {
		return err
	}
	if err := b.space.create(b.ctx, placementsPath, placement(manyNamespace, manyNamespace, "configmaps", labelled(manyNamespace), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	if err := b.fill(manyNamespace, n); err != nil {
		return err
	}
	if err := b.waitApplied(manyNamespace, n, 0); err != nil {
		return err
	}
	first, err := b.bareRound(n/10 + 1)
	if err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	all, err := b.syncAll(n)
	if err != nil {
		return err
	}
	second, err := b.bareRound(n/10 + 1)
	if err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	rate := float64(n) / all.took.Seconds()
	bare := 2 * float64(n/10+1) / (first.took + second.took).Seconds()
	perBare := (first.target + second.target).Seconds() * 1e3 / 2 / float64(n/10+1)
	perOwn := all.target.Seconds() * 1e3 / float64(n)
	b.report.set("many.time", all.took.Seconds(), "%d objects; agent's CPU %.1f s", n, all.cpu.Seconds())
	b.report.set("many.rate", rate/bare, "%.0f a second; bare client %.0f", rate, bare)
	b.report.set("many.cpu", perOwn/max(perBare, 1e-3), "%.2f ms of kube-apiserver and etcd for each; bare client %.2f ms", perOwn, perBare)
	return nil
}

// syncAll has the site get what is in the namespace.
func (b *bench) syncAll(n int) (r syncRound, err error) {
	w, err := b.target.watch(b.ctx, configMaps(manyNamespace))
	if err != nil {
		return r, err
	}
	defer w.close()
	w.limit += time.Duration(n) * pairTime
	agent, target := b.agent.Usage(), b.targetCPU()
	most := followPeak(b.agent.Process)
	start := time.Now()
	if err := b.root.patch(b.ctx, locationsPath+"/"+site, `{"metadata":{"labels":{"`+manyNamespace+`":"yes"}}}`); err != nil {
		return r, err
	}
	b.placed += n
	last, err := w.count(b.ctx, "ADDED", n)
	r = syncRound{took: last.Sub(start), target: b.targetCPU() - target}
	if err == nil {
		err = b.waitApplied(manyNamespace, n, n)
	}
	r.cpu = b.agent.Usage().CPU - agent.CPU
	b.report.set("many.memory", float64(most.end())/1e6, "before %s", megabytes(agent.RSSAnon))
	b.load = load{manyNamespace, n, time.Now()}
	return r, err
}
