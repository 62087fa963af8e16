package agentapi

import (
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Values of keys of class key.Drops. The revision of such a key is that of a removal of reports. With
// dropsMore, more removals follow, and agents do not receive the revision yet.
const dropsMore, dropsAll = `{"more":true}`, `{}`

// Drop returns the change that records a removal of reports that no Placement requests any more. It
// belongs to the transaction of the removal. The location's agent receives its revision, at any hub,
// unless more removals follow. location is the row of the Location, which must still exist. previous is
// the row of an earlier removal, or nil.
func Drop(l key.Location, location, previous *table.Row, more bool) etcd.Change {
	c := etcd.Change{Op: etcd.Op{Key: key.Dropped(l), Value: []byte(dropsAll)}, While: etcd.Guard{Key: location.Key, CreateRev: location.CreateRev}}
	if more {
		c.Value = []byte(dropsMore)
	}
	if previous != nil {
		c.Seen = previous.ModRev
	}
	return c
}

// Dropping reports whether more removals of reports must follow.
func Dropping(previous *table.Row) bool {
	return previous != nil && string(previous.Value) == dropsMore
}
