package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// summaryPace is the minimum interval between writes of a Summary.
const summaryPace = time.Second

// summarized writes the status of Summaries: at once after a change, but each at most once per
// summaryPace.
func (c *Controllers) summarized() *controller {
	lastReconciled := map[string]time.Time{}
	reconcile := func(ctx context.Context, k string) error {
		now := c.config.Now()
		if left := summaryPace - now.Sub(lastReconciled[k]); left > 0 && left <= summaryPace {
			return againError(left)
		}
		row := c.config.Table.Snapshot().Get(k)
		if row == nil {
			delete(lastReconciled, k)
			return nil
		}
		lastReconciled[k] = now
		return c.reconcileSummary(ctx, k)
	}
	return c.controller("summaries", reconcile, c.counting)
}

// counting is the watch of Summaries whose status may have changed. It runs the computation and
// then pauses for as long as that took, so that other work can run.
func (c *Controllers) counting(ctx context.Context, enqueue func([]string)) error {
	const again = time.Minute // retries abandoned work
	tick := time.NewTicker(again)
	defer tick.Stop()
	if c.summed { // an earlier run may not have reconciled all its keys
		inAllSpaces(key.Summaries)(c.config.Table.Snapshot(), func(row *table.Row) bool {
			enqueue([]string{row.Key})
			return true
		})
	}
	c.summed = true
	for {
		select {
		case <-c.config.Summed.Signal:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for more := true; more; {
			began := c.config.Now()
			var dirty []key.Object
			dirty, more = c.config.Summaries.Work(c.config.Table.Snapshot, began)
			for _, o := range dirty {
				enqueue([]string{o.Key()})
			}
			select {
			case <-time.After(max(c.config.Now().Sub(began), c.config.Settling/summedPerSettle)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// summedPerSettle bounds the computations per settling time.
const summedPerSettle = 4

func (c *Controllers) reconcileSummary(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	row := c.config.Table.Snapshot().Get(k)
	if row == nil || !c.exists(o.Space) {
		return nil
	}
	return c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var s v1alpha1.Summary
		if err := json.Unmarshal(object, &s); err != nil {
			return nil, fmt.Errorf("decode summary %q: %w", o.Name, err)
		}
		st := s.Status
		shown, ok := c.config.Summaries.Show(o, &st)
		if !ok || shown.Generation != row.Meta.Generation {
			return s.Status, nil // still being computed
		}
		c.condition(&st.Conditions, row, accepted(shown.Problems, "every test and expression can be used"))
		c.condition(&st.Conditions, row, shown.Complete)
		return st, nil
	})
}
