package exports

import (
	"slices"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// shelves are those of an object by the rules for its resource: in order, each once.
// referring are the values of the exported objects that refer to it.
func shelves(state table.Reader, by []*rule, e *table.Entry, referring func(*view) []string) (all []key.Shelf) {
	for _, r := range by {
		if !r.has(e) {
			continue
		}
		all = append(all, r.of.shelf())
		for _, v := range r.views {
			own := ValueIn(v.key.Split, e)
			if r.bound || own != "" && !v.key.Field {
				all = append(all, v.key.Shelf(own))
				continue
			}
			all = append(all, r.followed(state, v, e, referring)...)
		}
	}
	slices.SortFunc(all, key.Shelf.Compare)
	return slices.Compact(all)
}

// has says whether an object of the resource is the export's.
func (r *rule) has(e *table.Entry) bool {
	return r.bound || slices.ContainsFunc(r.claims, func(c *binding.Claim) bool { return c.Selects(e.Meta.Labels) })
}

// maxFollowed is in how many slices of a view a claimed object is by what it follows: each
// value that comes or goes costs as much as there are. It goes by the first owners, or values.
const maxFollowed = 1024

// followed are the slices of a claimed object without a value of its own: those of the
// exported objects that own it, if there are any, or else of those that refer to it, or the
// rest. So nobody else's reference brings what is owned anywhere.
func (r *rule) followed(state table.Reader, v *view, e *table.Entry, referring func(*view) []string) (all []key.Shelf) {
	owned := false
	for owner := range r.owners(e) {
		row := state.Get(owner.key)
		if row == nil || row.Meta.UID != owner.uid {
			continue
		}
		if owned = true; len(all) == maxFollowed {
			break
		}
		if f := v.key.Shelf(ValueIn(v.key.Split, row.Entry)); f.Value != "" {
			all = append(all, f)
		}
	}
	if !owned {
		for _, value := range referring(v) { // they have slices
			f := v.key.View
			f.Value = value
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		all = append(all, v.key.View)
	}
	return all
}
