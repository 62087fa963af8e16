package read

import "orrery.dev/orrery/internal/hub/storage/table"

// today is a row as its current CRD reads it, whatever the CRD was when it was written. For
// built-in kinds, and for what a location gets, it is the row itself. That a row reads as it
// was written is remembered in the row.
func (r *reader) today(row *table.Row) *table.Row {
	custom := r.kind.Custom
	if custom == nil || row == nil || r.look.at != "" || r.look.reports || r.look.metadataOnly {
		return row
	}
	if row.AsWritten.Load() == custom.ID() {
		return row
	}
	value, err := custom.Today(row.Value)
	if err != nil {
		return row // what the current CRD can't read is shown as it was written
	}
	if value == nil {
		row.AsWritten.Store(custom.ID())
		return row
	}
	r.added.Add(max(0, int64(len(value)-len(row.Value))))
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}
