package placement

import (
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// LetGo returns why a change ended the assignment of an object to a location. placement is the
// first Placement, by name, that had assigned it; "" if none had. named reports whether a user
// deleted by name the object, its namespace while the namespace is being deleted, or all Placements
// that had assigned it. Otherwise the cause is policy, which includes the deletion of a space or an
// APIBinding. LetGo reads only the change, not later state.
func LetGo(ch table.Change, location key.Location) (placement key.PlacementRef, named bool) {
	old, ok := ch.Prev.In.(*Membership)
	if !ok {
		return "", false
	}
	assigned, ended := old.Contains(location), true
	for _, s := range old.sources {
		if !assigned || !s.locations.contains(location) {
			continue
		}
		if placement == "" {
			placement = s.Placement
		}
		ended = ended && s.Placement != "" && slices.Contains(ch.Ended(), s.Placement)
	}
	return placement, assigned && (ended || ch.Named()) || (ch.Cur == nil || ch.Cur.Meta.Deleting) && !unbound(ch)
}

// unboundPath is the path of v1alpha1.UnboundAnnotation.
const unboundPath = `metadata.annotations.orrery\.dev/unbound`

// unbound reports whether the object is being deleted with the APIBinding of its resource.
func unbound(ch table.Change) bool {
	row := ch.Row()
	return row.Meta.Deleting && gjson.GetBytes(row.Value, unboundPath).Exists()
}
