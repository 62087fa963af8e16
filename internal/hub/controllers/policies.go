package controllers

import (
	"context"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// policyConfig contains the dependencies of the policyController.
type policyConfig struct {
	Table *table.Table
	// Counted are the policies whose counts may have changed.
	Counted     *keySet[string]
	Placements  placementStatus
	Customizers customizerStatus
}

// policyController writes the status of Placements and Customizers once counts have settled, or
// after several settling times if they do not, so that a burst of reports causes one write. Changes
// of Customizers are reconciled at once.
type policyController struct{ config policyConfig }

func (c *policyController) watches() []watch {
	customizers := source{resourceTopics(key.Customizers), inAllSpaces(key.Customizers), byKey}
	return []watch{c.watchCounted, follow(c.config.Table, customizers)}
}

// watchCounted is the watch of policies whose counts may have changed. A new run enqueues all
// policies at once if some were counted before, which an earlier run, or another hub, may not have reconciled.
// Otherwise it waits for the first count, since there is nothing to write before.
func (c *policyController) watchCounted(ctx context.Context, enqueue func([]string)) error {
	isMissed := c.config.Counted.open()
	defer c.config.Counted.close()
	if isMissed {
		for _, r := range []key.Resource{key.Placements, key.Customizers} {
			inAllSpaces(r)(c.config.Table.Snapshot(), func(row *table.Row) bool {
				enqueue([]string{row.Key})
				return ctx.Err() == nil
			})
		}
	}
	for {
		select {
		case <-c.config.Counted.added:
		case <-ctx.Done():
			return ctx.Err()
		}
		enqueue(c.config.Counted.take())
	}
}

func (c *policyController) reconcile(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	if o.Resource == key.Customizers {
		return c.config.Customizers.update(ctx, o)
	}
	return c.config.Placements.update(ctx, key.Placement{Space: o.Space, Name: o.Name})
}
