package progress

import (
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// policyIndex holds the Placements, and the fields of Locations and Spaces that decide which Placements select
// them. Its changes make Placements and locations dirty. Tracker.mu guards it.
type policyIndex struct {
	// selectable are the Locations that have a row, and reachable the Spaces that have one.
	selectable map[key.Location]selectable
	reachable  map[key.Space]reachable
	// known are the Placements that have a row, by space.
	known map[key.Space]map[key.Placement]edit
	// upsyncOnly are the known Placements that only have upsync, and upsyncs the states of the locations that are
	// not objectstate.UpsyncPending.
	upsyncOnly map[key.Placement]struct{}
	upsyncs    map[key.Location]objectstate.UpsyncState
	// moved are the locations that have changed, see Dirty.
	moved []placement.Site
}

// clear forgets everything. All known Placements and locations are dirty.
func (x *policyIndex) clear(totals *totals) {
	for _, all := range x.known {
		for p := range all {
			totals.dirtyPlacements[p] = struct{}{}
		}
	}
	for l, former := range x.selectable {
		totals.dirtyLocations[l] = struct{}{}
		x.moved = append(x.moved, placement.Site{Name: l, Labels: former.labels})
	}
	x.selectable = map[key.Location]selectable{}
	x.reachable = map[key.Space]reachable{}
	x.known = map[key.Space]map[key.Placement]edit{}
	x.upsyncOnly = map[key.Placement]struct{}{}
	x.upsyncs = map[key.Location]objectstate.UpsyncState{}
}

// updatePlacement makes a Placement dirty at every change of its row, so that a status that
// another client wrote does not stay.
func (x *policyIndex) updatePlacement(totals *totals, o key.Object, row *table.Row) {
	p := key.Placement{Space: o.Space, Name: o.Name}
	totals.dirtyPlacements[p] = struct{}{}
	if isUpsyncOnly(row) {
		x.upsyncOnly[p] = struct{}{}
	} else {
		delete(x.upsyncOnly, p)
	}
	all := x.known[p.Space]
	switch {
	case row == nil:
		if delete(all, p); len(all) == 0 {
			delete(x.known, p.Space)
		}
	case all == nil:
		x.known[p.Space] = map[key.Placement]edit{p: editOf(row)}
	case all[p] != edit{} && all[p].uid == row.Meta.UID && all[p].generation == row.Meta.Generation: // a status was written
	default:
		all[p] = editOf(row)
	}
}

// isUpsyncOnly reports whether a Placement has upsync and no downsync.
func isUpsyncOnly(row *table.Row) bool {
	if row == nil {
		return false
	}
	fields := gjson.GetManyBytes(row.Value, "spec.upsync.#", "spec.downsync.#")
	return fields[0].Int() > 0 && fields[1].Int() == 0
}

// edit identifies the last edit of a Placement that was applied, with the first known revision that has it.
type edit struct {
	uid             string
	generation, rev int64
}

func editOf(row *table.Row) edit { return edit{row.Meta.UID, row.Meta.Generation, row.ModRev} }

func (x *policyIndex) updateLocation(totals *totals, o key.Object, row *table.Row) {
	l := key.Location(o.Name)
	totals.dirtyLocations[l] = struct{}{}
	totals.setStale(l, objectstate.IsRowStale(row))
	x.updateUpsyncState(totals, l, objectstate.UpsyncStateOf(row))
	previous, existed := x.selectable[l]
	current, exists := selectable{}, row != nil && !row.Meta.Deleting
	if exists {
		current = selectableOf(row)
		x.selectable[l] = current
	} else {
		delete(x.selectable, l)
	}
	if existed == exists && previous.equal(current) {
		return
	}
	if existed {
		x.moved = append(x.moved, placement.Site{Name: l, Labels: previous.labels})
	}
	if exists {
		x.moved = append(x.moved, placement.Site{Name: l, Labels: current.labels})
	}
}

// updateUpsyncState updates the state of a location that may be asked for objects.
func (x *policyIndex) updateUpsyncState(totals *totals, l key.Location, now objectstate.UpsyncState) {
	if x.upsyncs[l] == now {
		return
	}
	if x.upsyncs[l] = now; now == objectstate.UpsyncPending {
		delete(x.upsyncs, l)
	}
	for p := range x.upsyncOnly {
		totals.dirtyPlacements[p] = struct{}{}
	}
}

// selectable has the fields of a Location that decide which policies select it, and which objects it admits.
type selectable struct {
	labels             table.Labels
	uid, admit, taints string
}

func selectableOf(row *table.Row) selectable {
	fields := gjson.GetManyBytes(row.Value, "spec.admit", "spec.taints", "status.taints")
	return selectable{row.Meta.Labels, row.Meta.UID, fields[0].Raw, fields[1].Raw + fields[2].Raw}
}

func (s selectable) equal(o selectable) bool {
	return s.uid == o.uid && s.admit == o.admit && s.taints == o.taints && slices.Equal(s.labels, o.labels)
}

// reachable has the fields of a Space that decide which Placements of root select it, and which locations admit
// it.
type reachable struct {
	labels     table.Labels
	isPresent  bool
	isDeleting bool
}

// updateSpace makes the Placements of a space and of root dirty if they may concern its change.
func (x *policyIndex) updateSpace(totals *totals, s key.Space, row *table.Row) {
	previous, current := x.reachable[s], reachable{}
	if row == nil {
		delete(x.reachable, s)
	} else {
		current = reachable{row.Meta.Labels, true, row.Meta.Deleting}
		x.reachable[s] = current
	}
	if previous.isPresent == current.isPresent && previous.isDeleting == current.isDeleting && slices.Equal(previous.labels, current.labels) {
		return
	}
	for _, in := range []key.Space{s, key.Root} {
		for p := range x.known[in] {
			totals.dirtyPlacements[p] = struct{}{}
		}
	}
}
