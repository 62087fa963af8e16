package table

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

// Showing names the shelves that a row is on. It is immutable, and a Shower returns the same
// value for the same shelves, so that values can be compared.
type Showing interface {
	// Shelves are in the order of key.Shelf.Compare, each once.
	Shelves() []key.Shelf
}

// Shown says on which shelves the row of a key is from now on; nil for none.
type Shown struct {
	Key string
	On  Showing
}

// ShownOn says whether the row is on a shelf. It is false for no row.
func (r *Row) ShownOn(f key.Shelf) bool {
	_, found := slices.BinarySearchFunc(r.shelves(), f, key.Shelf.Compare)
	return found
}

// shelf has the keys of the rows that are on it.
type shelf struct {
	of   key.Shelf
	keys btree.Set[string]
}

func compareShelves(a, b *shelf) bool { return a.of.Compare(b.of) < 0 }

// show asks the Shower and returns the changes with the shelves set, and those of shelves
// alone behind. The first changes are of values, the others of membership alone; both are in
// the order of keys.
func (t *Table) show(changes []Change, values int) []Change {
	if t.config.Shower == nil {
		return changes
	}
	var moved []Change // not appended yet: the loop still writes to changes
	for _, s := range t.config.Shower.Show(locked{t}, changes) {
		row, ok := t.rows.Get(s.Key)
		if !ok || row.On == s.On {
			continue
		}
		if c := find(changes[:values], s.Key); c != nil {
			c.Cur.On = s.On
			continue
		}
		if c := find(changes[values:], s.Key); c != nil {
			c.Cur.On = s.On
			continue
		}
		cur := &Row{Entry: row.Entry, In: row.In, On: s.On}
		t.rows.Set(s.Key, cur)
		moved = append(moved, Change{Prev: row, Cur: cur})
	}
	slices.SortFunc(moved, compareKeys)
	return append(changes, moved...)
}

// find is the change of a key; nil if there is none.
func find(changes []Change, k string) *Change {
	i, ok := slices.BinarySearchFunc(changes, k, func(c Change, k string) int { return strings.Compare(c.Row().Key, k) })
	if !ok {
		return nil
	}
	return &changes[i]
}

// shelves are those that a change is about: each that the row is on, or was, unless nothing
// changes there.
func (c Change) shelves() (all []key.Shelf) {
	was, now := c.Prev.shelves(), c.Cur.shelves()
	if c.Prev != nil && c.Cur != nil && c.Prev.On == c.Cur.On {
		if c.SameEntry() {
			return nil
		}
		return now
	}
	for _, f := range was {
		if c.about(f) {
			all = append(all, f)
		}
	}
	for _, f := range now {
		if !c.Prev.ShownOn(f) {
			all = append(all, f)
		}
	}
	return all
}

// about says whether a change is about a shelf.
func (c Change) about(f key.Shelf) bool {
	was, is := c.Prev.ShownOn(f), c.Cur.ShownOn(f)
	return was != is || was && !c.SameEntry()
}

// shelves are those of a row; none for no row.
func (r *Row) shelves() []key.Shelf {
	if r == nil || r.On == nil {
		return nil
	}
	return r.On.Shelves()
}

// place keeps the index of shelves equal to what the rows are on.
func (t *Table) place(c Change) {
	if c.Prev != nil && c.Cur != nil && c.Prev.On == c.Cur.On {
		return
	}
	for _, f := range c.Prev.shelves() {
		if c.Cur.ShownOn(f) {
			continue
		}
		if of, ok := t.shelves.Get(&shelf{of: f}); ok {
			if of.keys.Delete(c.Prev.Key); of.keys.Len() == 0 {
				t.shelves.Delete(of)
			}
		}
	}
	for _, f := range c.Cur.shelves() {
		if c.Prev.ShownOn(f) {
			continue
		}
		of, ok := t.shelves.Get(&shelf{of: f})
		if !ok {
			of = &shelf{of: f}
			t.shelves.Set(of)
		}
		of.keys.Insert(c.Cur.Key)
	}
}

// AscendShelf calls fn for the rows on a shelf from a key on, in key order, until it returns
// false; fn may return a later key to continue from, as for AscendMembers, under whose
// conditions it is called. It returns the revision that it read.
func (t *Table) AscendShelf(f key.Shelf, start string, fn func(*Row) (from string, more bool)) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if of, ok := t.shelves.Get(&shelf{of: f}); ok {
		t.follow(&of.keys, start, fn)
	}
	return t.rev.Load()
}

// Shelf is a shelf with rows, and how many.
type Shelf struct {
	key.Shelf
	Rows int
}

// SlicesOf are the shelves of an APIExportView that have rows, in the order of their values,
// and the revision they were counted at.
func (t *Table) SlicesOf(s key.Space, view string) (all []Shelf, rev int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	of := key.Shelf{Space: s, Name: view, View: true}
	t.shelves.Ascend(&shelf{of: of}, func(f *shelf) bool {
		if f.of.Space != s || f.of.Name != view || !f.of.View {
			return false
		}
		all = append(all, Shelf{f.of, f.keys.Len()})
		return true
	})
	return all, t.rev.Load()
}

// Shelved says whether objects of a resource may be on shelves: Events and Leases may not.
func Shelved(r key.Resource) bool { return !isEvent(r.String()) }
