package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/protocol/key"
)

// reconcileCustomizer updates the condition Accepted of a Customizer, and the locations where its
// rules fail.
func (c *Controllers) reconcileCustomizer(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	problems, ok := placement.ProblemsOf(snapshot, o.Space, o.Name, c.config.Rules)
	if !ok {
		return nil
	}
	errs := c.config.Progress.Customizer(progress.Customizer{Space: o.Space, Name: o.Name})
	return c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var customizer v1alpha1.Customizer
		if err := json.Unmarshal(object, &customizer); err != nil {
			return nil, fmt.Errorf("decode customizer %q: %w", o.Name, err)
		}
		c.condition(&customizer.Status.Conditions, row, accepted(problems, "every selector, test and rule can be used"))
		customizer.Status.Errors = errs
		return customizer.Status, nil
	})
}
