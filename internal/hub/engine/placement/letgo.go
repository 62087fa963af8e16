package placement

import (
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// LetGo says why the object of a change is no longer assigned to a location: the first
// Placement by name that had assigned it, "" if none had, and whether a user has deleted
// by name what assigned it: the object itself, also with its namespace, from when that is being
// deleted, or all Placements that had assigned it. Everything else follows from policy, including the deletion of a
// space or an APIBinding. It goes by the change alone, not by what has happened since.
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
		ended = ended && s.Placement != "" && slices.Contains(ch.Ended(), s.Placement)
	}
	return placement, assigned && (ended || ch.Named()) || (ch.Cur == nil || ch.Cur.Meta.Deleting) && !unbound(ch)
}

// unboundPath is that of v1alpha1.UnboundAnnotation.
const unboundPath = `metadata.annotations.orrery\.dev/unbound`

// unbound says that the object of a change goes with the APIBinding by which its space has
// its kind.
func unbound(ch table.Change) bool {
	row := ch.Row()
	return row.Meta.Deleting && gjson.GetBytes(row.Value, unboundPath).Exists()
}
