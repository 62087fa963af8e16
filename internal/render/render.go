// Package render makes of a row what a location gets of it.
//
// It must never know who asks.
package render

import (
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/kinds/travel"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/view"
	"orrery.dev/orrery/internal/wire"
)

// Renderer renders rows. It is safe for concurrent use.
type Renderer struct {
	// Builtin are the kinds that need no CRD.
	Builtin *kinds.Catalog
}

// traveller says what of a row travels. It depends on the resource alone, so
// that what travels is a function of the row.
func (r Renderer) traveller(row *table.Row) (view.Traveller, error) {
	o, err := key.ParseObject(row.Key)
	if err != nil {
		return nil, err
	}
	if kind, ok := r.Builtin.ForStorage(o.Resource); ok {
		return kind, nil
	}
	return travel.Custom(o.Resource.APIGroup()), nil
}

// Render makes of a row what a location gets.
func (r Renderer) Render(row *table.Row, l key.Location) (view.Rendered, error) {
	t, err := r.traveller(row)
	if err != nil {
		return view.Rendered{}, err
	}
	return view.Render(t, row, l)
}

// Digest is the digest of what Render makes of a row.
func (r Renderer) Digest(row *table.Row, l key.Location) (wire.Sum, error) {
	t, err := r.traveller(row)
	if err != nil {
		return wire.Sum{}, err
	}
	return view.Digest(t, row, l)
}
