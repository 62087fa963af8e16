package table

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

// Members returns the rows that belong to a location, in key order, and their revision. Its cost grows
// with the number of these rows only.
func (t *Table) Members(l key.Location) ([]*Row, int64) {
	var rows []*Row
	rev := t.AscendMembers(l, func(row *Row) (string, bool) {
		rows = append(rows, row)
		return "", true
	})
	return rows, rev
}

// AscendMembers calls fn for the rows that belong to a location, in key order, until fn returns false.
// It returns the revision of the rows. fn may return a later key to continue from, to skip the rows in
// between at no cost. fn is called under the table's lock, so it must be quick and must not call the
// table.
func (t *Table) AscendMembers(l key.Location, fn func(*Row) (from string, more bool)) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if set := t.members[l]; set != nil {
		t.follow(set, "", fn)
	}
	return t.rev.Load()
}

// follow calls fn for the rows of a set of keys, from a key on, until fn returns false. fn may return a
// later key to continue from. The table's lock is held.
func (t *Table) follow(keys *btree.Set[string], from string, fn func(*Row) (from string, more bool)) {
	for more := true; more; {
		more = false
		keys.Ascend(from, func(k string) bool {
			row, ok := t.rows.Get(k)
			if !ok {
				return true
			}
			next, ok := fn(row)
			if ok && next > k {
				from, more = next, true
				return false
			}
			return ok
		})
	}
}
