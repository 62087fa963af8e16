package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
)

// customizers keeps the condition Accepted of Customizers.
func (c *Controllers) customizers() *controller {
	return c.controller("customizers", c.reconcileCustomizer,
		c.follow(source{table.AcrossSpaces(key.Customizers), inAllSpaces(key.Customizers), byKey}))
}

func (c *Controllers) reconcileCustomizer(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(k)
	problems, ok := placement.ProblemsOf(snapshot, o.Space, o.Name)
	if !ok {
		return nil
	}
	return c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var customizer v1alpha1.Customizer
		if err := json.Unmarshal(object, &customizer); err != nil {
			return nil, fmt.Errorf("decode customizer %q: %w", o.Name, err)
		}
		c.condition(&customizer.Status.Conditions, row, accepted(problems, "every selector, test and path can be used"))
		return customizer.Status, nil
	})
}
