package read

import (
	"context"
	"errors"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Errors that end a watch whose stream condition fails.
var (
	// errStopped ends a watch without an error event. The client has gone, or it gets the reason
	// when it starts another watch.
	errStopped = errors.New("watch stopped")
	// errAnother ends a watch with an error event that makes the client list again. The location
	// has been deleted, but its cluster keeps running the objects, so the client must not get
	// deletions. The same holds for a revision of a deleted space of the same name, and for one
	// before a change of a claim.
	errAnother = errors.New("the space or location is gone, or another one")
)

// conditions returns the stream conditions of a watch that starts at a revision: those of its
// view, and those of its client's access.
func (r *reader) conditions(ctx context.Context, from int64) []table.Condition {
	all := r.lens.conditions(&r.server.config, r.kind, from)
	if access := r.server.config.StreamConditions; access != nil {
		all = append(all, table.WithEnd(access(ctx), errStopped)...)
	}
	return all
}

// conditions require that the space is the one that existed at the revision, and that it still
// defines the kind in the same way.
func (l spaceLens) conditions(c *Config, k *kinds.Kind, from int64) []table.Condition {
	all := l.exists(c, from)
	if k.Custom == nil || k.GVK.Group == v1alpha1.Group || c.Defines == nil {
		return all
	}
	for _, definition := range c.DefinedBy(l.name, k) {
		all = append(all, table.Condition{
			Key:   definition,
			IsMet: func(*table.Row) bool { return c.Defines(l.name, k) },
			End:   errStopped,
		})
	}
	return all
}

// exists returns the conditions that the space exists, and is the one that existed at the revision.
func (l spaceLens) exists(c *Config, from int64) []table.Condition {
	if l.name == key.Root {
		return nil
	}
	return []table.Condition{table.ObjectExists(l.name.Key(), c.Table.Rev(), errStopped), table.ObjectExists(l.name.Key(), from, errAnother)}
}

// conditions returns none: spaces may be created and deleted.
func (allSpacesLens) conditions(*Config, *kinds.Kind, int64) []table.Condition { return nil }

// conditions require that the location is the one that existed at the revision: earlier changes
// belong to a deleted location of the same name.
func (l locationLens) conditions(_ *Config, _ *kinds.Kind, from int64) []table.Condition {
	return []table.Condition{table.ObjectExists(l.name.Key(), from, errAnother)}
}
