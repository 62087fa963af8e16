package placement

import (
	"slices"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// LetGo says why the object of a change is no longer assigned to a location: the first
// Placement by name that had assigned it, "" if none had, and whether a user has deleted
// by name what assigned it: the object itself, also with its namespace, or all Placements
// that had assigned it. Everything else follows from policy, including the deletion of a
// space. It goes by the change alone, not by what has happened since.
func LetGo(ch table.Change, location key.Location) (placement key.PlacementRef, named bool) {
	was, ok := ch.Prev.In.(*Membership)
	if !ok {
		return "", false
	}
	assigned, ended := was.Has(location), true
	for _, s := range was.sources {
		if !assigned || !s.locations.has(location) {
			continue
		}
		if placement == "" {
			placement = s.Placement
		}
		ended = ended && s.Placement != "" && slices.Contains(ch.Ended, s.Placement)
	}
	return placement, assigned && ended || ch.Cur == nil || ch.Cur.Meta.Deleting
}
