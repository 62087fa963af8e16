package view

import (
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/render"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// placed is the membership of rows that go to locations.
type placed interface {
	Place(location key.Location) (placement.Place, bool)
}

// Holds says whether a location is to have a row's object: it is assigned, not
// held back, and no other space's object keeps it out.
func Holds(row *table.Row, l key.Location) bool {
	if row.In == nil {
		return false
	}
	p, ok := row.In.(placed)
	if !ok {
		return row.In.Has(l)
	}
	place, ok := p.Place(l)
	return ok && place.Held == "" && place.Owner == ""
}

// rendered is what the view's location gets of a row's object.
func (r *reader) rendered(row *table.Row) (render.Rendered, error) {
	return r.server.config.Renderer.Render(row.Entry, classAt(row, r.look.at))
}

// digest is that of what rendered returns.
func (r *reader) digest(row *table.Row) (wire.Sum, error) {
	return r.server.config.Renderer.Digest(row.Entry, classAt(row, r.look.at))
}

// classAt is the class by which a location gets a row's object.
func classAt(row *table.Row, l key.Location) *placement.Class {
	p, ok := row.In.(placed)
	if !ok {
		return nil
	}
	place, _ := p.Place(l)
	return place.Class
}
