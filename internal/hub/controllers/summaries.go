package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/summaries"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// summaryPace is the minimum interval between writes of a Summary.
const summaryPace = time.Second

// summaryConfig contains the dependencies of the summaryController.
type summaryConfig struct {
	Table  *table.Table
	Status *statusWriter
	// Summaries computes the tables of Summaries. Changed is raised when there is work.
	Summaries *summaries.Index
	Changed   Signal
	// Settling bounds the rate of computations: there are at most summedPerSettle in this time.
	Settling time.Duration
	Now      func() time.Time
}

// summaryController writes the status of Summaries: at once after a change, but each at most once
// per summaryPace.
type summaryController struct {
	config summaryConfig
	pauses *pauses
	// started reports whether the controller has run before.
	started bool
}

func newSummaryController(config summaryConfig) *summaryController {
	return &summaryController{config: config, pauses: newPauses(config.Now)}
}

func (c *summaryController) watches() []watch { return []watch{c.counting} }

func (c *summaryController) reconcile(ctx context.Context, k string) error {
	return c.pauses.run(k, func() (time.Duration, error) { return c.update(ctx, k) })
}

// counting is the watch of Summaries whose status may have changed. It runs the computation and
// then pauses for as long as that took, so that other work can run.
func (c *summaryController) counting(ctx context.Context, enqueue func([]string)) error {
	const again = time.Minute // retries abandoned work
	tick := time.NewTicker(again)
	defer tick.Stop()
	if c.started { // an earlier run may not have reconciled all its keys
		inAllSpaces(key.Summaries)(c.config.Table.Snapshot(), func(row *table.Row) bool {
			enqueue([]string{row.Key})
			return true
		})
	}
	c.started = true
	defer c.config.Summaries.Pause() // another hub may be elected
	c.config.Changed.Raise()
	for {
		select {
		case <-c.config.Changed.Signal:
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

// update writes the status of a Summary, and returns the time until the next update.
func (c *summaryController) update(ctx context.Context, k string) (time.Duration, error) {
	o, err := key.ParseObject(k)
	if err != nil {
		return 0, err
	}
	row := c.config.Table.Snapshot().Get(k)
	if row == nil || !write.Exists(c.config.Table, o.Space) {
		return 0, nil
	}
	return summaryPace, c.config.Status.update(ctx, row, func(object []byte) (any, error) {
		var s v1alpha1.Summary
		if err := json.Unmarshal(object, &s); err != nil {
			return nil, fmt.Errorf("decode summary %q: %w", o.Name, err)
		}
		st := s.Status
		shown, ok := c.config.Summaries.Show(o, &st)
		if !ok || shown.Generation != row.Meta.Generation {
			return s.Status, nil // still being computed
		}
		c.config.Status.condition(&st.Conditions, row, accepted(shown.Problems, "every test and expression can be used"))
		c.config.Status.condition(&st.Conditions, row, shown.Complete)
		return st, nil
	})
}
