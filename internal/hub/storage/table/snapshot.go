package table

import "github.com/tidwall/btree"

// Snapshot is the immutable state at one revision. It shares its rows with the table. A reader may keep
// it for any time.
type Snapshot struct {
	// Rev is the snapshot's revision.
	Rev  int64
	rows *btree.Map[string, *Row]
}

var _ Reader = (*Snapshot)(nil)

// Snapshot returns the current state. Its cost does not depend on the number of rows.
func (t *Table) Snapshot() *Snapshot {
	t.mu.RLock()
	snap := t.snap
	t.mu.RUnlock()
	if snap != nil {
		return snap
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.snap == nil {
		t.snap = &Snapshot{Rev: t.rev.Load(), rows: t.rows.Copy()}
	}
	return t.snap
}

// Get returns the row of a key, or nil.
func (s *Snapshot) Get(k string) *Row {
	row, _ := s.rows.Get(k)
	return row
}

// Ascend calls fn for the rows below a prefix in key order until it returns false.
func (s *Snapshot) Ascend(prefix string, fn func(*Row) bool) { ascend(s.rows, prefix, fn) }

// AscendFrom calls fn for the rows from the key start on, in key order, until it returns
// false.
func (s *Snapshot) AscendFrom(start string, fn func(*Row) bool) {
	s.rows.Ascend(start, func(_ string, row *Row) bool { return fn(row) })
}

// Get returns the row of a key, or nil, and the revision of the table.
func (t *Table) Get(k string) (*Row, int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	row, _ := t.rows.Get(k)
	return row, t.rev.Load()
}
