package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reportedHub is a hub of its own at whose locations Deployments are, the same at all, whose
// statuses change at all of them as fast as the hub takes it. They come back to the space,
// as they do when a Placement says nothing.
type reportedHub struct {
	ownHub
	// have is what each location has, in order.
	have map[string][]*wire.Put
	// round counts how often all have reported.
	round int
}

// reportsAtOnce measures what reports cost: memory for each with a status, and how many
// the hub takes a second when all locations report all they have.
func (b *bench) reportsAtOnce() error {
	own, err := b.newOwnHub(stateSpace(0))
	if err != nil {
		return err
	}
	defer own.end()
	h := &reportedHub{ownHub: own, have: map[string][]*wire.Put{}}
	return h.take("reports", phase{"objects", h.addObjects}, phase{"statuses", h.addStatuses}, phase{"rate", h.changeAll})
}

// sites is how many locations report.
func (h *reportedHub) sites() int { return max(2, h.bench.size.sites/10) }

func (h *reportedHub) pairs() int { return h.sites() * h.bench.size.ownEach }

// addObjects makes locations, and Deployments that all of them get.
func (h *reportedHub) addObjects() error {
	b := h.bench
	if err := h.furnish(1, h.sites()); err != nil {
		return err
	}
	all := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{}}
	if err := b.space.create(b.ctx, placementsPath, placement(stateName, "default", "deployments", all, "")); err != nil {
		return err
	}
	for i := range b.size.ownEach {
		if err := b.space.create(b.ctx, deploymentsPath, workload(nameOf(i))); err != nil {
			return err
		}
	}
	if err := h.collect(); err != nil {
		return err
	}
	if err := b.waitApplied(stateName, b.size.ownEach, h.pairs()); err != nil {
		return err
	}
	return b.calmDown()
}

const deploymentsPath = "/apis/apps/v1/namespaces/default/deployments"

// workload is one of the Deployments.
func workload(name string) []byte {
	labels := map[string]string{"app": name}
	return encoded(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"replicas": 3, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "registry.example/app:1"}}},
			},
		},
	})
}

// collect takes what arrives until all locations have all objects.
func (h *reportedHub) collect() error {
	timeout := time.NewTimer(timeLimit)
	defer timeout.Stop()
	for n := range h.pairs() {
		select {
		case a := <-h.arrivals:
			h.have[a.location] = append(h.have[a.location], a.put)
		case <-timeout.C:
			return fmt.Errorf("%d of %d objects have arrived after %s", n, h.pairs(), timeLimit)
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		}
	}
	for _, all := range h.have {
		slices.SortFunc(all, func(a, b *wire.Put) int { return strings.Compare(a.Key, b.Key) })
	}
	return nil
}

// addStatuses has all locations report a status of each object, and reads what that costs.
func (h *reportedHub) addStatuses() error {
	b := h.bench
	each, err := h.grownBy(h.pairs(), func() error { return h.reportAll(b.size.ownEach, 0) })
	b.report.set("reports.memory", each, "%d Deployments at %d locations, a status of %d bytes each; hub %s",
		b.size.ownEach, h.sites(), len(statusOf(0)), megabytes(h.last))
	return err
}

// changeAll has all statuses change, round after round, and then those that Summaries count:
// before there are Summaries, and when there are.
func (h *reportedHub) changeAll() error {
	b := h.bench
	alone, err := h.changeStatuses(b.size.ownEach)
	if err != nil {
		return err
	}
	n := b.size.rounds * h.pairs()
	b.report.add("reports.rate", result{value: median(alone.rates), samples: alone.rates, comment: fmt.Sprintf("%d locations at once; hub's CPU %.0f µs for each, with all that follows from it", h.sites(), alone.cpu)})
	b.report.set("reports.writes", alone.writes, "%d reports, and the statuses of %d Deployments in the space", n, b.size.ownEach)
	b.report.set("reports.bytes", alone.bytes, "keys, values and what etcd keeps besides")
	if h.summed() < b.size.ownEach {
		if alone, err = h.changeStatuses(h.summed()); err != nil {
			return err
		}
	}
	if err := h.addSummaries(); err != nil {
		return err
	}
	summed, err := h.changeStatuses(h.summed())
	if err != nil {
		return err
	}
	b.report.set("summaries.cpu", summed.cpu-alone.cpu, "hub's CPU %.0f µs for each instead of %.0f, with its writes:  %.0f revisions for 1,000 instead of %.0f, %.0f KB instead of %.0f",
		summed.cpu, alone.cpu, summed.writes, alone.writes, summed.bytes, alone.bytes)
	b.report.add("summaries.rate", result{value: median(summed.rates) / median(alone.rates), samples: summed.rates,
		comment: fmt.Sprintf("%.0f reports a second instead of %.0f", median(summed.rates), median(alone.rates))})
	return nil
}

// toll is what rounds of reports cost: how many the hub took a second in each, its CPU in µs
// for each report, and revisions and KB of its log for 1,000.
type toll struct {
	rates              []float64
	cpu, writes, bytes float64
}

// changeStatuses has the statuses of the first n Deployments change, round after round.
func (h *reportedHub) changeStatuses(n int) (t toll, err error) {
	b := h.bench
	cpu := b.hub.Usage().CPU
	start, err := b.logged()
	if err != nil {
		return t, err
	}
	for range b.size.rounds {
		h.round++
		start := time.Now()
		if err := h.reportAll(n, h.round); err != nil {
			return t, err
		}
		t.rates = append(t.rates, float64(n*h.sites())/time.Since(start).Seconds())
		if err := b.calmDown(); err != nil {
			return t, err
		}
	}
	end, err := b.logged()
	if err != nil {
		return t, err
	}
	thousands := float64(b.size.rounds*n*h.sites()) / 1000
	t.cpu = (b.hub.Usage().CPU - cpu).Seconds() * 1e3 / thousands
	t.writes, t.bytes = end.since(start, thousands)
	return t, nil
}

// reportAll has all locations report the statuses of the first n Deployments in a round, each
// as fast as the hub answers it.
func (h *reportedHub) reportAll(n, round int) error {
	status, now := json.RawMessage(statusOf(round)), time.Now()
	return share(h.bench.ctx, h.all, len(h.all), func(ctx context.Context, _ *resident, i int) error {
		k := h.all[i]
		var lines []wire.ReportLine
		have := h.have[k.Join.Location][:n]
		for i, p := range have {
			line := appliedLine(p, now)
			line.Report.Status, line.Report.Health, line.Report.Wanted = status, wire.Healthy, &wire.Wanted{Replicas: new(int64(3))}
			if lines = append(lines, line); len(lines) < cap(k.reports) && i < len(have)-1 {
				continue
			}
			if err := k.send(ctx, lines); err != nil {
				return err
			}
			lines = nil
		}
		return nil
	})
}

// statusOf is the status of a Deployment in a round.
func statusOf(round int) string {
	condition := func(kind string) string {
		return `{"type":"` + kind + `","status":"True","reason":"Round` + fmt.Sprint(round) + `","message":"` + strings.Repeat("m", 60) +
			`","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	}
	return fmt.Sprintf(`{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":%d,"availableReplicas":%[1]d,"conditions":[%s,%s]}`,
		round%4, condition("Available"), condition("Progressing"))
}
