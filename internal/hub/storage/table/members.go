package table

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

// Members returns the rows that belong to a location, in key order, and the
// revision they were read at. It costs as much as the location has rows.
func (t *Table) Members(l key.Location) ([]*Row, int64) {
	var rows []*Row
	rev := t.AscendMembers(l, func(row *Row) (string, bool) {
		rows = append(rows, row)
		return "", true
	})
	return rows, rev
}

// AscendMembers calls fn for the rows that belong to a location, in key order, until it
// returns false. fn may return a later key to continue from, so that rows in between cost
// nothing. It returns the revision that it read. fn is called under the table's lock: it
// must be quick and not call the table.
func (t *Table) AscendMembers(l key.Location, fn func(*Row) (from string, more bool)) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if set := t.members[l]; set != nil {
		t.follow(set, "", fn)
	}
	return t.rev.Load()
}

// follow calls fn for the rows of a set of keys from one on, until it returns false; fn may
// return a later key to continue from. The table is locked.
func (t *Table) follow(keys *btree.Set[string], from string, fn func(*Row) (from string, more bool)) {
	for more := true; more; {
		more = false
		keys.Ascend(from, func(k string) bool {
			row, ok := t.rows.Get(k)
			if !ok {
				return true
			}
			next, on := fn(row)
			if on && next > k {
				from, more = next, true
				return false
			}
			return on
		})
	}
}
