package controllers

import (
	"context"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// nameConfig contains the dependencies of the nameController.
type nameConfig struct {
	Table *table.Table
	// Assign gives the CRDs of a space that lack names those that are free.
	Assign func(context.Context, key.Space) error
}

// nameController assigns API names to CRDs after another CRD or an APIBinding of their space has
// released them. Its keys are spaces.
type nameController struct{ config nameConfig }

// A deleted APIBinding leaves no row that could be listed, so the rows are the CRDs that may lack a
// name.
func (c *nameController) watches() []watch {
	return []watch{follow(c.config.Table, source{resourceTopics(key.CRDs, key.APIBindings), inAllSpaces(key.CRDs), byReleasedName})}
}

// byReleasedName enqueues the space of a CRD that lacks a name, and of a change that may release
// one. New APIBindings release no name.
func byReleasedName(ch table.Change) []string {
	s, r, _, ok := key.Split(ch.Row().Key)
	if !ok || ch.Prev == nil && (r == key.APIBindings || write.NamesAccepted(ch.Cur)) {
		return nil
	}
	return []string{string(s)}
}

func (c *nameController) reconcile(ctx context.Context, s string) error {
	return c.config.Assign(ctx, key.Space(s))
}
