package placement

import (
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Status is what one Placement's spec selects in a state.
type Status struct {
	// Spaces is how many other spaces a Placement of root reaches.
	Spaces int
	// Reaches says that it is one that does.
	Reaches bool
	// Locations are the names of the locations, in order, that an object gets which is at
	// none of them. If it is of another space, what locations admit is not regarded.
	Locations []key.Location
	// Unknown are the names in its locations of which there is none.
	Unknown []string
	// Unasked are the first of the locations that are not asked for what its upsync matches,
	// by name, for the spaces that it is about; Unaskeds is how many there are.
	Unasked  []Unasked
	Unaskeds int
	// Asks says that it has an upsync.
	Asks bool
	// Problems are the entries of its spec that can't be used, and why; they
	// select and match nothing.
	Problems []string
}

// StatusOf resolves one Placement; ok is false if it is gone or being deleted. It only
// reads the state, so any goroutine may call it. Its cost is in proportion to the number
// of locations, or of the names if it selects by names alone, and to that of spaces if it
// reaches into these.
func StatusOf(state table.Reader, of key.Placement) (status Status, ok bool) {
	p := compile(of, state.Get(of.Object().Key()))
	if p == nil {
		return Status{}, false
	}
	p.admitted = p.reaches == nil
	p.tenant = tenantOf(state, of.Space)
	sites := p.resolve(state, p.tenant)
	status = Status{Locations: p.choose(nil, sites), Problems: p.problems, Reaches: p.reaches != nil}
	if status.Reaches {
		for t, row := range tenantsIn(state) {
			if !row.Meta.Deleting && p.reaches.fit(t) {
				status.Spaces++
			}
		}
	}
	status.Asks = len(p.yields) > 0
	p.noteUnasked(state, sites, &status)
	for _, name := range p.names {
		if !new(site).outline(state.Get(key.Location(name).Key())) {
			status.Unknown = append(status.Unknown, name)
		}
	}
	return status, true
}

// Concerned says whether the Status of the Placement with a row may change with some locations, as
// they were before a change and as they are after it: whether it selects or names one of them.
func Concerned(of key.Placement, row *table.Row, moved []Site) bool {
	p := compile(of, row)
	return p != nil && slices.ContainsFunc(moved, func(l Site) bool {
		_, named := slices.BinarySearch(p.names, string(l.Name))
		return named || p.selects(&site{Site: l})
	})
}

// Reached is a Placement of root that reaches a space.
type Reached struct {
	Placement key.Placement
	Suspended bool
}

// Reaching are the Placements of root that reach a space, by name. It only reads the state,
// so any goroutine may call it.
func Reaching(state table.Reader, space key.Space) (all []Reached) {
	for p := range placementsFor(state, space) {
		if p.reaches != nil && p.unreached(state, space) == nil {
			all = append(all, Reached{p.ref.Of(space), p.suspended})
		}
	}
	return all
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
