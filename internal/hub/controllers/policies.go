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
	KindRules   kindRulesStatus
}

// policyController writes the status of Placements, Customizers and KindRules once counts have
// settled, or after several settling times if they do not, so that a burst of reports causes one
// write. Changes of Customizers and KindRules are reconciled at once.
type policyController struct{ config policyConfig }

func (c *policyController) watches() []watch {
	customizers := source{resourceTopics(key.Customizers), inAllSpaces(key.Customizers), byKey}
	kindRules := source{resourceTopics(key.KindRules), inAllSpaces(key.KindRules), byKey}
	return []watch{c.watchCounted, follow(c.config.Table, customizers), follow(c.config.Table, kindRules)}
}

// watchCounted is the watch of policies whose counts may have changed. A new run enqueues all
// policies at once if some were counted before, which an earlier run, or another hub, may not have reconciled.
// Otherwise it waits for the first count, since there is nothing to write before.
func (c *policyController) watchCounted(ctx context.Context, enqueue func([]string)) error {
	isMissed := c.config.Counted.open()
	defer c.config.Counted.close()
	if isMissed {
		for _, r := range []key.Resource{key.Placements, key.Customizers, key.KindRules} {
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
	switch o.Resource {
	case key.Customizers:
		return c.config.Customizers.update(ctx, o)
	case key.KindRules:
		return c.config.KindRules.update(ctx, o)
	}
	return c.config.Placements.update(ctx, key.Placement{Space: o.Space, Name: o.Name})
}
