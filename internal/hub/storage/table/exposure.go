package table

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/protocol/key"
)

// Exposure names the export views that show a row. It is immutable. An Exposer returns the same value
// for the same export views, so that values can be compared.
type Exposure interface {
	// ExportViews returns the export views in the order of their Compare, without duplicates.
	ExportViews() []key.ExportView
}

// Exposed is the new Exposure of the row of a key; nil if no export view shows the row.
type Exposed struct {
	Key      string
	Exposure Exposure
}

// IsShownIn reports whether an export view shows the row. It is false for a nil row.
func (r *Row) IsShownIn(f key.ExportView) bool {
	_, found := slices.BinarySearchFunc(r.exportViews(), f, key.ExportView.Compare)
	return found
}

// exportView has the keys of the rows that an export view shows.
type exportView struct {
	id   key.ExportView
	keys btree.Set[string]
}

func isExportViewBefore(a, b *exportView) bool { return a.id.Compare(b.id) < 0 }

// expose calls the Exposer and returns the changes with the exposures set, followed by changes of
// exposures alone. The first values of the changes are changes of values, the others changes of
// membership alone; both are in the order of keys.
func (t *Table) expose(changes []Change, values int) []Change {
	if t.config.Exposer == nil {
		return changes
	}
	var moved []Change // not appended yet: the loop still writes to changes
	for _, s := range t.config.Exposer.Expose(locked{t}, changes) {
		row, ok := t.rows.Get(s.Key)
		if !ok || row.Exposure == s.Exposure {
			continue
		}
		if c := find(changes[:values], s.Key); c != nil {
			c.Cur.Exposure = s.Exposure
			continue
		}
		if c := find(changes[values:], s.Key); c != nil {
			c.Cur.Exposure = s.Exposure
			continue
		}
		cur := &Row{Entry: row.Entry, In: row.In, Exposure: s.Exposure}
		t.rows.Set(s.Key, cur)
		moved = append(moved, Change{Prev: row, Cur: cur})
	}
	slices.SortFunc(moved, compareKeys)
	return append(changes, moved...)
}

// find returns the change of a key, or nil if there is none. The changes are in the order of keys.
func find(changes []Change, k string) *Change {
	i, ok := slices.BinarySearchFunc(changes, k, func(c Change, k string) int { return strings.Compare(c.Row().Key, k) })
	if !ok {
		return nil
	}
	return &changes[i]
}

// exportViews returns the export views in which a change is visible.
func (c Change) exportViews() (all []key.ExportView) {
	previous, current := c.Prev.exportViews(), c.Cur.exportViews()
	if c.Prev != nil && c.Cur != nil && c.Prev.Exposure == c.Cur.Exposure {
		if c.SameEntry() {
			return nil
		}
		return current
	}
	for _, f := range previous {
		if c.isVisibleIn(f) {
			all = append(all, f)
		}
	}
	for _, f := range current {
		if !c.Prev.IsShownIn(f) {
			all = append(all, f)
		}
	}
	return all
}

// isVisibleIn reports whether a change is visible in an export view: it adds the row, removes it, or
// changes the value of a row that the view shows.
func (c Change) isVisibleIn(f key.ExportView) bool {
	isPrevious, isCurrent := c.Prev.IsShownIn(f), c.Cur.IsShownIn(f)
	return isPrevious != isCurrent || isPrevious && !c.SameEntry()
}

// exportViews returns the export views that show a row; none for a nil row.
func (r *Row) exportViews() []key.ExportView {
	if r == nil || r.Exposure == nil {
		return nil
	}
	return r.Exposure.ExportViews()
}

// indexExposure updates the index of export views for a change.
func (t *Table) indexExposure(c Change) {
	if c.Prev != nil && c.Cur != nil && c.Prev.Exposure == c.Cur.Exposure {
		return
	}
	for _, f := range c.Prev.exportViews() {
		if c.Cur.IsShownIn(f) {
			continue
		}
		if view, ok := t.exportViews.Get(&exportView{id: f}); ok {
			if view.keys.Delete(c.Prev.Key); view.keys.Len() == 0 {
				t.exportViews.Delete(view)
			}
		}
	}
	for _, f := range c.Cur.exportViews() {
		if c.Prev.IsShownIn(f) {
			continue
		}
		view, ok := t.exportViews.Get(&exportView{id: f})
		if !ok {
			view = &exportView{id: f}
			t.exportViews.Set(view)
		}
		view.keys.Insert(c.Cur.Key)
	}
}

// AscendExportView calls fn for the rows of an export view, from a key on, in key order, until fn
// returns false. It returns the revision of the rows. fn may return a later key, and is called under
// the table's lock, as for AscendMembers.
func (t *Table) AscendExportView(f key.ExportView, start string, fn func(*Row) (from string, more bool)) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if view, ok := t.exportViews.Get(&exportView{id: f}); ok {
		t.follow(&view.keys, start, fn)
	}
	return t.rev.Load()
}

// Slice is a slice of an APIExportView, with the number of its rows.
type Slice struct {
	key.ExportView
	Rows int
}

// Slices returns the slices of an APIExportView that have rows, in the order of their values, and the
// revision of the counts.
func (t *Table) Slices(s key.Space, name string) (all []Slice, rev int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	first := key.ExportView{Space: s, Name: name, View: true}
	t.exportViews.Ascend(&exportView{id: first}, func(f *exportView) bool {
		if f.id.Space != s || f.id.Name != name || !f.id.View {
			return false
		}
		all = append(all, Slice{f.id, f.keys.Len()})
		return true
	})
	return all, t.rev.Load()
}

// CanBeExported reports whether export views can show objects of a resource: not Events and Leases.
func CanBeExported(r key.Resource) bool { return !isEvent(r.String()) }
