package agentapi

import (
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// What a key of key.Drops has: its revision is when reports were removed, and while more are
// to be, agents are not told yet.
const dropsMore, dropsAll = `{"more":true}`, `{}`

// Drop is the change that notes, in the transaction that removes reports of a location which
// nobody wants any more, that it does. The location's agent is told of its revision, at
// whichever hub it is, once no more follow. at is the row of the location, without which nothing
// is noted, was the row of before, if there is one.
func Drop(l key.Location, at, was *table.Row, more bool) etcd.Change {
	c := etcd.Change{Op: etcd.Op{Key: key.Dropped(l), Value: []byte(dropsAll)}, While: etcd.Guard{Key: at.Key, CreateRev: at.CreateRev}}
	if more {
		c.Value = []byte(dropsMore)
	}
	if was != nil {
		c.Seen = was.ModRev
	}
	return c
}

// Dropping says that more reports were to be removed than were.
func Dropping(was *table.Row) bool { return was != nil && string(was.Value) == dropsMore }

// dropped is the newest revision at which reports of a location were removed, and no more
// followed; 0: none were, or more are to follow.
func (a *Server) dropped(l key.Location) int64 {
	row, _ := a.config.Table.Get(key.Dropped(l))
	if row == nil || Dropping(row) {
		return 0
	}
	return row.ModRev
}
