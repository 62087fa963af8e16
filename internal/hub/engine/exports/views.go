package exports

import (
	"slices"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// exportViewsOf returns the export views of an object by the rules for its resource, sorted and
// without duplicates. referring returns the values of the exported objects that refer to it.
func exportViewsOf(state table.Reader, applicable []*rule, e *table.Entry, referring func(*view) []string) (all []key.ExportView) {
	for _, r := range applicable {
		if !r.selects(e) {
			continue
		}
		all = append(all, r.export.exportView())
		for _, v := range r.views {
			own := ValueIn(v.key.Split, e)
			if r.bound || own != "" && !v.key.Field {
				all = append(all, v.key.ExportView(own))
				continue
			}
			all = append(all, r.followed(state, v, e, referring)...)
		}
	}
	slices.SortFunc(all, key.ExportView.Compare)
	return slices.Compact(all)
}

// selects reports whether an object of the resource belongs to the export.
func (r *rule) selects(e *table.Entry) bool {
	return r.bound || slices.ContainsFunc(r.claims, func(c *binding.Claim) bool { return c.Selects(e.Meta.Labels) })
}

// maxFollowed bounds the slices of a view in which a claimed object is because of the objects that
// it follows, since each change of such a value costs time in proportion to them. Only the first
// owners or values count.
const maxFollowed = 1024

// followed returns the slices of a claimed object without a value of its own: those of the exported
// objects that own it, if there are any; otherwise those of the objects that refer to it, or else
// the rest. So a reference cannot bring an owned object into another slice.
func (r *rule) followed(state table.Reader, v *view, e *table.Entry, referring func(*view) []string) (all []key.ExportView) {
	owned := false
	for owner := range r.owners(e) {
		row := state.Get(owner.key)
		if row == nil || row.Meta.UID != owner.uid {
			continue
		}
		if owned = true; len(all) == maxFollowed {
			break
		}
		if f := v.key.ExportView(ValueIn(v.key.Split, row.Entry)); f.Value != "" {
			all = append(all, f)
		}
	}
	if !owned {
		for _, value := range referring(v) { // these values have slices
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
