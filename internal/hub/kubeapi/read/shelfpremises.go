package read

import (
	"encoding/json"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// premises are that the provider, its export and the view are those that existed at the
// revision, that the export still offers the kind, defined the same way, or claims it for the
// same verbs, and that the space has still bound it. Objects that leave because one of these
// ends are not told to be deleted: they are not.
func (l shelfLens) premises(c *Config, k *kinds.Kind, from int64) []table.Condition {
	provider := spaceLens{l.Shelf.Space}
	all := table.WithEnd(provider.premises(c, k, from), errAnother)
	if l.Shelf.View {
		all = append(all, table.ObjectExists(l.Shelf.Key(), from, errAnother))
	}
	export := exportOf(c.Table, l.Shelf)
	all = append(all, table.ObjectExists(export, from, errAnother), l.offers(c.Table, export, k))
	for _, by := range l.Hidden {
		all = append(all, stays(by))
	}
	if l.Space != "" {
		all = append(all, spaceLens{l.Space}.stands(c, from)...)
		all = append(all, l.bound(c.Table, export))
	}
	return all
}

// offer is how an export has a resource.
type offer struct {
	exported bool
	verbs    []string
}

func offerOf(export *table.Row, k *kinds.Kind) (o offer) {
	var e v1alpha1.APIExport
	if export == nil || json.Unmarshal(export.Value, &e) != nil {
		return o
	}
	o.exported = slices.Contains(e.Spec.Resources, v1alpha1.ExportedResource{Group: k.Resource.APIGroup(), Resource: k.Resource.Resource})
	for _, claim := range e.Spec.Claims {
		if key.NewResource(claim.Group, claim.Resource) == k.Resource {
			o.verbs = claim.Verbs
		}
	}
	return o
}

// offers is the premise that an export has a resource as it has it now, by which was judged
// what is hidden.
func (l shelfLens) offers(t *table.Table, export string, k *kinds.Kind) table.Condition {
	row, _ := t.Get(export)
	was := offerOf(row, k)
	judged := was.exported || row != nil && row.ModRev <= l.Judged
	return table.Condition{Key: export, End: errAnother, IsMet: func(row *table.Row) bool {
		is := offerOf(row, k)
		return judged && (is.exported || is.verbs != nil) && is.exported == was.exported && slices.Equal(is.verbs, was.verbs)
	}}
}

// stays is the premise that the binding of a space, which keeps something from the provider,
// is as it is.
func stays(binding *table.Entry) table.Condition {
	return table.Condition{Key: binding.Key, End: errAnother, IsMet: func(row *table.Row) bool {
		return row != nil && row.Entry == binding
	}}
}

// bound is the premise that the space has bound the export.
func (l shelfLens) bound(t *table.Table, export string) table.Condition {
	snapshot := t.Snapshot()
	for _, b := range binding.Of(snapshot, l.Space) {
		if is, _ := b.Export(snapshot); is == nil || b.ExportKey() != export {
			continue
		}
		uid := b.UID
		return table.Condition{Key: b.Entry.Key, End: errStopped, IsMet: func(row *table.Row) bool {
			is := binding.Read(row)
			return is != nil && is.UID == uid && is.ExportKey() == export
		}}
	}
	return table.Condition{Key: l.Space.Key(), End: errStopped, IsMet: func(*table.Row) bool { return false }}
}
