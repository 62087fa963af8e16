package view

import "orrery.dev/orrery/internal/table"

// today is a row as its CRD has it read now, whatever the CRD said when it was
// written; of a built-in kind, and of what a location gets, it is the row
// itself. That a row reads as it is written is found out once.
func (r *reader) today(row *table.Row) *table.Row {
	custom := r.kind.Custom
	if custom == nil || row == nil || r.look.at != "" || r.look.metadataOnly {
		return row
	}
	if row.AsWritten.Load() == custom.ID() {
		return row
	}
	value, err := custom.Today(row.Value)
	if err != nil {
		return row // what can't be read by the CRD of today is shown as it was written
	}
	if value == nil {
		row.AsWritten.Store(custom.ID())
		return row
	}
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}
