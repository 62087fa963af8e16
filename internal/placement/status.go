package placement

import (
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Status is what one Placement's spec selects in a state.
type Status struct {
	// Locations are the names of the locations, in order, that an object gets which is at
	// none of them.
	Locations []key.Location
	// Unknown are the names in its locations of which there is none.
	Unknown []string
	// Problems are the entries of its spec that can't be used, and why; they
	// select and match nothing.
	Problems []string
}

// StatusOf resolves one Placement; ok is false if it is gone or being deleted. It only
// reads the state, so any goroutine may call it. Its cost is in proportion to the number
// of locations.
func StatusOf(state table.Reader, of key.Placement) (status Status, ok bool) {
	p := compile(of.Name, state.Get(of.Object().Key()))
	if p == nil {
		return Status{}, false
	}
	sites := p.resolve(state, tenantOf(state, of.Space))
	status = Status{Locations: p.choose(nil, sites), Problems: p.problems}
	for _, name := range p.names {
		if sites[key.Location(name)] == nil {
			status.Unknown = append(status.Unknown, name)
		}
	}
	return status, true
}

// compiledAdmits gives the spec.admit of Locations, each text compiled once.
func compiledAdmits() func(*table.Row) *admit {
	known := map[string]*admit{}
	return func(row *table.Row) *admit {
		text := admitTextOf(row)
		a, ok := known[text]
		if !ok {
			a = compileAdmit(text)
			known[text] = a
		}
		return a
	}
}
