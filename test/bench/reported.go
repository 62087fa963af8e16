package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/wire"
	"orrery.dev/orrery/test/env"
)

// reportedHub is a hub of its own at whose locations Deployments are, the same at all, whose
// statuses change at all of them as fast as the hub takes it. They come back to the space,
// as they do when a Placement says nothing.
type reportedHub struct {
	growth
	*residents
	// have is what each location has, in the order of its coming.
	have map[string][]*wire.Put
}

// reportsAtOnce measures what reports cost: memory for each with a status, and how many
// the hub takes a second when all locations report all they have.
func (b *bench) reportsAtOnce() error {
	own := &bench{t: b.t, ctx: b.ctx, size: b.size, report: b.report, calm: b.calm, cluster: b.cluster, hub: env.StartHub(b.t)}
	defer own.hub.Kill()
	own.fleet = newFleet(own)
	h := &reportedHub{growth: growth{bench: own}, residents: &residents{fleet: own.fleet}, have: map[string][]*wire.Put{}}
	defer func() {
		h.fail(errors.New("the reports are measured"))
		h.running.Wait()
	}()
	for _, step := range []struct {
		name string
		run  func() error
	}{{"objects", h.addObjects}, {"statuses", h.addStatuses}, {"rate", h.changeStatuses}} {
		start := time.Now()
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		b.t.Logf("reports, %s: %s", step.name, time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}

// sites is how many locations report.
func (h *reportedHub) sites() int { return max(2, h.bench.size.sites/10) }

func (h *reportedHub) pairs() int { return h.sites() * h.bench.size.ownEach }

// addObjects makes locations, and Deployments that all of them get.
func (h *reportedHub) addObjects() (err error) {
	b := h.bench
	for to, path := range map[**client]string{&b.root: "spaces/root", &b.space: "spaces/" + stateSpace(0)} {
		if *to, err = newClient(b.hub.PathConfig(path)); err != nil {
			return err
		}
	}
	apis, err := servedBy(b.cluster)
	if err != nil {
		return err
	}
	if err := b.makeSpaces(1); err != nil {
		return err
	}
	if err := h.join(h.sites(), apis); err != nil {
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
	if err := b.settled(stateName, b.size.ownEach, h.pairs()); err != nil {
		return err
	}
	err = b.calmDown()
	h.rest = time.Now()
	return err
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
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for n := range h.pairs() {
		select {
		case a := <-h.arrivals:
			h.have[a.location] = append(h.have[a.location], a.put)
		case <-timeout.C:
			return fmt.Errorf("%d of %d objects have arrived after %s", n, h.pairs(), patience)
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		}
	}
	return nil
}

// addStatuses has all locations report a status of each object, and reads what that costs.
func (h *reportedHub) addStatuses() error {
	b := h.bench
	if _, err := h.grown(1); err != nil {
		return err
	}
	if err := h.reportAll(0); err != nil {
		return err
	}
	if err := b.calmDown(); err != nil {
		return err
	}
	h.rest = time.Now()
	each, err := h.grown(h.pairs())
	b.report.set("reports.memory", each, "%d Deployments at %d locations, a status of %d bytes each; hub %s",
		b.size.ownEach, h.sites(), len(statusOf(0)), megabytes(h.last))
	return err
}

// changeStatuses has all statuses change, round after round.
func (h *reportedHub) changeStatuses() error {
	b := h.bench
	var rates []float64
	cpu := b.hub.Usage().CPU
	before, err := b.revision()
	if err != nil {
		return err
	}
	rounds := b.size.rounds
	for i := range rounds {
		start := time.Now()
		if err := h.reportAll(i + 1); err != nil {
			return err
		}
		rates = append(rates, float64(h.pairs())/time.Since(start).Seconds())
		if err := b.calmDown(); err != nil {
			return err
		}
	}
	after, err := b.revision()
	if err != nil {
		return err
	}
	thousands := float64(rounds*h.pairs()) / 1000
	each := (b.hub.Usage().CPU - cpu).Seconds() * 1e3 / thousands
	b.report.add("reports.rate", result{value: median(rates), samples: rates, note: fmt.Sprintf("%d locations at once; hub's CPU %.0f µs for each, what comes of it included", h.sites(), each)})
	b.report.set("reports.writes", float64(after-before)/thousands, "%d reports, and the statuses of %d Deployments in the space", rounds*h.pairs(), b.size.ownEach)
	return nil
}

// reportAll has all locations report the statuses of a round, each as fast as the hub
// answers it.
func (h *reportedHub) reportAll(round int) error {
	status, now := json.RawMessage(statusOf(round)), time.Now()
	return share(h.bench.ctx, h.all, len(h.all), func(ctx context.Context, _ *resident, i int) error {
		k := h.all[i]
		var lines []wire.ReportLine
		for n, p := range h.have[k.Join.Location] {
			line := appliedLine(p, now)
			line.Report.Status, line.Report.Health, line.Report.Wanted = status, wire.Healthy, &wire.Wanted{Replicas: new(int64(3))}
			if lines = append(lines, line); len(lines) < cap(k.reports) && n < len(h.have[k.Join.Location])-1 {
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
