package placement

import (
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Status describes what the spec of one Placement selects in a state.
type Status struct {
	// Spaces counts the other spaces that a Placement of root selects.
	Spaces int
	// Reaches reports whether the Placement selects other spaces.
	Reaches bool
	// Locations are the locations, in order, that a new object gets. For a Placement that selects
	// other spaces, admission is ignored.
	Locations []key.Location
	// Unknown are the names in its locations that do not exist, or that admit no object of the space.
	Unknown []string
	// Unasked are the first locations that report nothing for its upsync, by name and space;
	// Unaskeds counts all.
	Unasked  []Unasked
	Unaskeds int
	// HasUpsync reports whether it has upsync entries. IsUpsyncOnly reports whether it has no other entries; then
	// Requested are the locations that get them, in order.
	HasUpsync, IsUpsyncOnly bool
	Requested               []key.Location
	// Problems describes the entries of its spec that cannot be used; they select and match
	// nothing.
	Problems []string
}

// StatusOf computes the Status of one Placement; ok is false if it does not exist or is being
// deleted. It only reads the state, so any goroutine may call it. Its cost is in proportion to the
// number of locations, or of names if it selects by name only, and to the number of spaces if it
// selects spaces.
func StatusOf(state table.Reader, placement key.Placement) (status Status, ok bool) {
	p := compile(placement, state.Get(placement.Object().Key()))
	if p == nil {
		return Status{}, false
	}
	p.admitted = p.reaches == nil
	p.tenant = tenantOf(state, placement.Space)
	sites := p.resolve(state, p.tenant)
	status = Status{Locations: p.choose(nil, sites), Problems: p.problems, Reaches: p.reaches != nil}
	if status.Reaches {
		for t, row := range tenantsIn(state) {
			if !row.Meta.Deleting && p.reaches.fit(t) {
				status.Spaces++
			}
		}
	}
	status.HasUpsync = len(p.yields) > 0
	if status.IsUpsyncOnly = len(p.upsync) > 0 && len(p.tests) == 0; status.IsUpsyncOnly {
		status.Requested = p.upsyncLocations(sites, &locationSets{}).names
	}
	p.noteUnasked(state, sites, &status)
	for _, name := range p.names {
		if row := state.Get(key.Location(name).Key()); !new(site).outline(row) || !isVisible(row, p.tenant) && !p.isOfRoot {
			status.Unknown = append(status.Unknown, name)
		}
	}
	return status, true
}

// Concerned reports whether the Status of a Placement may change with some locations: whether it
// selects or names one of them. moved holds these locations as they were before and as they are
// after the change.
func Concerned(placement key.Placement, row *table.Row, moved []Site) bool {
	p := compile(placement, row)
	return p != nil && slices.ContainsFunc(moved, func(l Site) bool {
		_, named := slices.BinarySearch(p.names, string(l.Name))
		return named || p.selects(&site{Site: l})
	})
}

// Reached is a Placement of root that applies to a space.
type Reached struct {
	Placement key.Placement
	Suspended bool
}

// Reaching returns the Placements of root that apply to a space, by name. It only reads the state,
// so any goroutine may call it.
func Reaching(state table.Reader, space key.Space) (all []Reached) {
	for p := range placementsFor(state, space) {
		if p.reaches != nil && p.unreached(state, space) == nil {
			all = append(all, Reached{p.ref.Resolve(space), p.suspended})
		}
	}
	return all
}

// compiledAdmits returns a function that compiles the spec.admit of a Location, with a cache by
// text.
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
