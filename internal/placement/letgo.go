package placement

import (
	"slices"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// LetGo says why a location no longer has the object of a change: the first
// Placement by name that had placed it there, "" if none had, and whether that was
// a user's word by name: the object was deleted, also by way of its namespace, or
// the deletion of Placements alone accounts for it. All else follows from policy,
// as the deletion of a space. It goes by the change alone, whatever has happened
// since.
func LetGo(ch table.Change, location key.Location) (placement string, named bool) {
	was, ok := ch.Prev.In.(*Membership)
	if !ok {
		return "", false
	}
	ended := true
	for _, s := range was.sources {
		if !s.locations.has(location) {
			continue
		}
		if placement == "" {
			placement = s.Placement
		}
		ended = ended && s.Placement != "" && slices.Contains(ch.Ended, s.Placement)
	}
	return placement, ended || ch.Cur == nil || ch.Cur.Meta.Deleting
}
