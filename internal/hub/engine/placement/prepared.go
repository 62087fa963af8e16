package placement

import "orrery.dev/orrery/internal/hub/storage/table"

// prepared has values that were computed of rows before the table was locked, for the next Derive. They are
// functions of values in the log alone.
type prepared[V any] map[*table.Entry]V

// take returns the value of a row, and computes it if it was not prepared. Without a row it is the zero value.
func (p prepared[V]) take(row *table.Row, compute func() V) (value V) {
	if row == nil {
		return value
	}
	if known, ok := p[row.Entry]; ok {
		return known
	}
	return compute()
}
