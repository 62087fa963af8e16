package table

// Prepared has values that a Preparer computed of rows before the table was locked, for the next step. They are
// functions of values in the log alone. It is for the goroutine that applies revisions.
type Prepared[V any] map[*Entry]V

// Take returns the value of a row, and computes it if it was not prepared. Without a row it is the zero value.
func (p Prepared[V]) Take(row *Row, compute func() V) (value V) {
	if row == nil {
		return value
	}
	if known, ok := p[row.Entry]; ok {
		return known
	}
	return compute()
}
