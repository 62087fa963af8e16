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

// conditions require that the provider, its export and the view are those that existed at the
// revision. The export must still offer the kind with the same definition, or claim it for the
// same verbs, and the space must still have bound the export. When one of these fails, the watch
// ends instead of sending deletions: the objects still exist.
func (l exportLens) conditions(c *Config, k *kinds.Kind, from int64) []table.Condition {
	provider := spaceLens{l.ID.Space}
	all := table.WithEnd(provider.conditions(c, k, from), errAnother)
	if l.ID.View {
		all = append(all, table.ObjectExists(l.ID.Key(), from, errAnother))
	}
	export := exportOf(c.Table, l.ID)
	all = append(all, table.ObjectExists(export, from, errAnother), l.offers(c.Table, export, k))
	for _, entry := range l.Hidden {
		all = append(all, isUnchanged(entry))
	}
	if l.Space != "" {
		all = append(all, spaceLens{l.Space}.exists(c, from)...)
		all = append(all, l.bound(c.Table, export))
	}
	return all
}

// offer describes how an export contains a resource.
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

// offers requires that an export offers or claims a resource in the same way as now. This decided
// which spaces are hidden.
func (l exportLens) offers(t *table.Table, export string, k *kinds.Kind) table.Condition {
	row, _ := t.Get(export)
	initial := offerOf(row, k)
	decided := initial.exported || row != nil && row.ModRev <= l.DecidedAt
	return table.Condition{Key: export, End: errAnother, IsMet: func(row *table.Row) bool {
		is := offerOf(row, k)
		return decided && (is.exported || is.verbs != nil) && is.exported == initial.exported && slices.Equal(is.verbs, initial.verbs)
	}}
}

// isUnchanged requires that the APIBinding of a hidden space does not change.
func isUnchanged(binding *table.Entry) table.Condition {
	return table.Condition{Key: binding.Key, End: errAnother, IsMet: func(row *table.Row) bool {
		return row != nil && row.Entry == binding
	}}
}

// bound requires that the space has bound the export.
func (l exportLens) bound(t *table.Table, export string) table.Condition {
	snapshot := t.Snapshot()
	for _, b := range binding.InSpace(snapshot, l.Space) {
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
