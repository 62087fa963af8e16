package read

import (
	"context"
	"errors"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// How watches end when a premise fails.
var (
	// errStopped ends a watch without an error event: either nobody waits for events any
	// more, or a client that begins another watch is told the reason.
	errStopped = errors.New("watch stopped")
	// errAnother says that the location is gone: nothing is assigned to it, but its
	// cluster keeps what it runs. A client must not take that for deletions, so it is told
	// to start over; as is who asks for what a former space of the name had, or for what was
	// there before a claim changed.
	errAnother = errors.New("the space or location is gone, or another one")
)

// premises are the premises of a watch that begins at a revision: those of its view, and
// those of its client's access.
func (r *reader) premises(ctx context.Context, from int64) []table.Condition {
	all := r.lens.premises(&r.server.config, r.kind, from)
	if let := r.server.config.Premises; let != nil {
		all = append(all, table.WithEnd(let(ctx), errStopped)...)
	}
	return all
}

// premises are that the space exists, that it is the one that existed at the revision, and
// that it still defines the kind the same way.
func (l spaceLens) premises(c *Config, k *kinds.Kind, from int64) []table.Condition {
	all := l.stands(c, from)
	if k.Custom == nil || k.GVK.Group == v1alpha1.Group || c.Defines == nil {
		return all
	}
	for _, by := range c.DefinedBy(l.name, k) {
		all = append(all, table.Condition{
			Key:   by,
			IsMet: func(*table.Row) bool { return c.Defines(l.name, k) },
			End:   errStopped,
		})
	}
	return all
}

// stands are the premises that the space exists, and is the one that existed at the revision.
func (l spaceLens) stands(c *Config, from int64) []table.Condition {
	if l.name == key.Root {
		return nil
	}
	return []table.Condition{table.ObjectExists(l.name.Key(), c.Table.Rev(), errStopped), table.ObjectExists(l.name.Key(), from, errAnother)}
}

// premises are none: spaces may be created and deleted.
func (allSpacesLens) premises(*Config, *kinds.Kind, int64) []table.Condition { return nil }

// premises are that the location is the one that existed at the revision: changes before
// that are another location's.
func (l locationLens) premises(_ *Config, _ *kinds.Kind, from int64) []table.Condition {
	return []table.Condition{table.ObjectExists(l.name.Key(), from, errAnother)}
}
