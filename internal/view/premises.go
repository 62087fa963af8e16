package view

import (
	"context"
	"errors"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/table"
)

// How watches end by their premises.
var (
	// errStopped is the end of a stream without a word: nobody waits for events any more,
	// or who begins another watch is told why there is none.
	errStopped = errors.New("watch stopped")
	// errAnotherLocation says that a location has nothing assigned since it is gone, but
	// its cluster keeps what it runs: a client must not take that for deletions, and
	// starts over.
	errAnotherLocation = errors.New("the location is gone, or another one")
)

// premises are what a watch that begins at a revision rests on: what its view does, and
// what its client was let in by.
func (r *reader) premises(ctx context.Context, from int64) []table.Premise {
	all := r.lens.premises(&r.server.config, r.kind, from)
	if let := r.server.config.Premises; let != nil {
		all = append(all, table.Ending(let(ctx), errStopped)...)
	}
	return all
}

// premises are that the space is there, and that it defines the kind as it did.
func (l spaceLens) premises(c *Config, k *kinds.Kind, _ int64) []table.Premise {
	var all []table.Premise
	if l.name != key.Root {
		all = append(all, table.Stands(l.name.Key(), c.Table.Rev(), errStopped))
	}
	if k.Custom == nil || k.GVK.Group == v1alpha1.Group || c.Defines == nil {
		return all
	}
	crd := key.Identity{Resource: key.CRDs, Name: k.Resource.Resource + "." + k.GVK.Group}
	return append(all, table.Premise{
		Key:   key.Object{Space: l.name, Identity: crd}.Key(),
		Holds: func(*table.Row) bool { return c.Defines(l.name, k) },
		End:   errStopped,
	})
}

// premises are none: spaces come and go.
func (allSpacesLens) premises(*Config, *kinds.Kind, int64) []table.Premise { return nil }

// premises are that the location is the one that was there when the watch begins: what
// went before is another location's.
func (l locationLens) premises(_ *Config, _ *kinds.Kind, from int64) []table.Premise {
	return []table.Premise{table.Stands(l.name.Key(), from, errAnotherLocation)}
}
