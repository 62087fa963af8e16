package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// customizerStatus writes the status of Customizers.
type customizerStatus struct {
	Table    *table.Table
	Status   *statusWriter
	Progress *progress.Tracker
	// Rules are those of the engine that derives memberships.
	Rules placement.RulesOf
}

// update writes the condition Accepted of a Customizer, and the locations where its rules fail.
func (c *customizerStatus) update(ctx context.Context, o key.Object) error {
	snapshot := c.Table.Snapshot()
	row := snapshot.Get(o.Key())
	problems, ok := placement.ProblemsOf(snapshot, o.Space, o.Name, c.Rules)
	if !ok {
		return nil
	}
	// A Customizer with problems is shown at once: it is not Ready, whatever its errors are.
	if len(problems) == 0 && !progress.AreRulesCounted(c.Progress, o, row.ModRev) {
		return nil // the counter enqueues it again
	}
	errs := c.Progress.Customizer(ctx, o)
	return c.Status.update(ctx, row, func(object []byte) (any, error) {
		var customizer v1alpha1.Customizer
		if err := json.Unmarshal(object, &customizer); err != nil {
			return nil, fmt.Errorf("decode customizer %q: %w", o.Name, err)
		}
		c.Status.condition(&customizer.Status.Conditions, row, accepted(problems, "every selector, test and rule can be used"))
		customizer.Status.Errors = errs
		return customizer.Status, nil
	})
}
