package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
)

const summariesPath = orreryAPI + "/summaries"

// summed is how many of the Deployments Summaries count. What the Summaries of one space hold
// is bounded.
func (h *reportedHub) summed() int { return min(h.bench.size.ownEach, 10) }

// addSummaries makes Summaries that all count what all locations report, waits until they
// have, and reads what they cost.
func (h *reportedHub) addSummaries() error {
	b := h.bench
	if _, err := h.grown(1); err != nil {
		return err
	}
	n, start := b.size.summaries, time.Now()
	for i := range n {
		if err := b.space.create(b.ctx, summariesPath, h.summing(i)); err != nil {
			return err
		}
	}
	if err := eventually(b.ctx, "the Summaries", func() error { return h.counted(b.ctx) }); err != nil {
		return err
	}
	took := time.Since(start)
	if err := b.calmDown(); err != nil {
		return err
	}
	each, err := h.grown(n)
	b.report.set("summaries.memory", each, "%d Summaries, each of %d objects at locations: %.0f bytes for each of those; counted %.1f s after the first was made; hub %s",
		n, h.summed()*h.sites(), each*1e3/float64(h.summed()*h.sites()), took.Seconds(), megabytes(h.last))
	return err
}

// counted fails if a Summary has not counted all that is at locations.
func (h *reportedHub) counted(ctx context.Context) error {
	text, err := h.bench.space.get(ctx, summariesPath)
	if err != nil {
		return err
	}
	var all v1alpha1.SummaryList
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if len(all.Items) != h.bench.size.summaries {
		return fmt.Errorf("there are %d", len(all.Items))
	}
	for i := range all.Items {
		if s := &all.Items[i]; s.Status.Counted != int64(h.summed()*h.sites()) || s.Status.Failed > 0 {
			return fmt.Errorf("%q has counted %d of %d, %d failed", s.Name, s.Status.Counted, h.summed()*h.sites(), s.Status.Failed)
		}
	}
	return nil
}

// summing is one of the Summaries. Each has an expression that no other has, and takes
// something of the object, of its status and of how it is.
func (h *reportedHub) summing(i int) []byte {
	var names []string
	for i := range h.summed() {
		names = append(names, nameOf(i))
	}
	return encoded(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Summary", "metadata": map[string]any{"name": nameOf(i)},
		"spec": v1alpha1.SummarySpec{
			Match:   []v1alpha1.ObjectTest{{APIGroup: new("apps"), Resources: []string{"deployments"}, Names: names}},
			Filter:  fmt.Sprintf("object.metadata.name != 'none-%d'", i),
			GroupBy: []v1alpha1.SummaryColumnExpression{{Name: "site", Expression: "location.name"}, {Name: "state", Expression: "sync.state"}},
			Combine: []v1alpha1.SummaryCombine{
				{Name: "objects", Type: v1alpha1.SummaryCount},
				{Name: "ready", Type: v1alpha1.SummarySum, Expression: "status.?readyReplicas.orValue(0)"},
			},
		},
	})
}
