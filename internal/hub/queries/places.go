package queries

import (
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reportOf returns a location's report in the log; nil if there is none.
func reportOf(state table.Reader, o key.Object, l key.Location) []byte {
	row := state.Get(key.Report{Location: l, Origin: key.Placed, Object: o}.Key())
	if row == nil {
		return nil
	}
	return row.Report()
}

// staleIn returns a function that reports whether the reports of a location are stale, with cached results.
func staleIn(state table.Reader) func(key.Location) bool {
	known := map[key.Location]bool{}
	return func(l key.Location) bool {
		stale, ok := known[l]
		if !ok {
			stale = objectstate.IsRowStale(state.Get(l.Key()))
			known[l] = stale
		}
		return stale
	}
}

// placeStatusOf returns the status of an object in a state at a location.
func placeStatusOf(location key.Location, v objectstate.Status) PlaceStatus {
	return PlaceStatus{
		Location: location, State: string(v.State), Reason: v.Reason, Message: v.Message, Since: v.Since,
		Health: v.Health, HealthNote: v.HealthNote, Stale: v.Stale, Unassigned: v.Unassigned,
	}
}

// placeOf returns how a row's object is placed at a location; false if it is not.
func placeOf(row *table.Row, l key.Location) (*placement.Membership, placement.Place, bool) {
	if row == nil {
		return nil, placement.Place{}, false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok || m == nil {
		return nil, placement.Place{}, false
	}
	p, ok := m.Place(l)
	return m, p, ok
}

// leftStatus returns the status of an object that is not assigned to a location. It returns false
// if the location neither reports the object nor has to confirm its removal.
func leftStatus(state table.Reader, o key.Object, l key.Location, stale bool) (PlaceStatus, bool) {
	report, row := reportOf(state, o, l), state.Get(o.Key())
	_, p, _ := placeOf(row, l)
	if p.Leaves && objectstate.Removed(report, row.Meta.UID) || !p.Leaves && (report == nil || objectstate.Removed(report, "")) {
		return PlaceStatus{}, false
	}
	ps := placeStatusOf(l, objectstate.Left(report, stale))
	cause, placement := objectstate.LetGo(report)
	ps.LetGoBy = placement
	if ps.Cause = CauseUnassigned; cause != wire.Unassigned && (row == nil || row.Meta.Deleting) {
		ps.Cause = CauseDeleted
	}
	return ps, true
}
