package read

import "orrery.dev/orrery/internal/hub/storage/table"

// today returns a row as the current CRD of its kind converts it. Rows of built-in kinds, and rows
// for locations, are returned unchanged. A row for which conversion changes nothing records that.
func (r *reader) today(row *table.Row) *table.Row {
	custom := r.kind.Custom
	if custom == nil || row == nil || r.display.location != "" || r.display.reports || r.display.metadataOnly {
		return row
	}
	if row.AsWritten.Load() == custom.ID() {
		return row
	}
	value, err := custom.Today(row.Value)
	if err != nil {
		return row // rows that can't be converted are served as stored
	}
	if value == nil {
		row.AsWritten.Store(custom.ID())
		return row
	}
	r.added.Add(max(0, int64(len(value)-len(row.Value))))
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}
