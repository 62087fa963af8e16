package aggregate

import "orrery.dev/orrery/apis/v1alpha1"

// trait holds the properties of a value that determine the type of its column: its family, whether
// it has a fraction, and whether it is null because its values cannot be combined.
type trait uint8

const (
	isFraction trait = 1 << 6
	isMixed    trait = 1 << 7
)

func traitOf(v Value, mixed bool) trait {
	t := trait(v.family)
	if !v.amount.isWhole() {
		t |= isFraction
	}
	if mixed {
		t |= isMixed
	}
	return t
}

// traits counts the traits of a column in all rows.
type traits struct {
	families         [families]int64
	fractions, mixed int64
}

func (t *traits) add(one trait, n int64) {
	t.families[one&^(isFraction|isMixed)] += n
	if one&isFraction != 0 {
		t.fractions += n
	}
	if one&isMixed != 0 {
		t.mixed += n
	}
}

// columns returns the number of columns.
func (d *Definition) columns() int { return len(d.keys) + len(d.combined) }

func (d *Definition) column(j int) column {
	if j < len(d.keys) {
		return d.keys[j]
	}
	return d.combined[j-len(d.keys)]
}

// cell returns the value of a row in a column. mixed reports whether it is null because its values
// cannot be combined.
func (d *Definition) cell(r *Row, j int) (v Value, mixed bool) {
	if j < len(d.keys) {
		return r.keys[j], false
	}
	j -= len(d.keys)
	return r.partials[j].result(d.combined[j].as)
}

// traitsOf returns the traits of a row's values, in the given slice.
func (d *Definition) traitsOf(r *Row, in []trait) []trait {
	in = in[:0]
	for j := range d.columns() {
		in = append(in, traitOf(d.cell(r, j)))
	}
	return in
}

// countTraits adds the traits of a row n times, which is 1 or -1.
func (d *Definition) countTraits(all []traits, rowTraits []trait, n int64) {
	for j, one := range rowTraits {
		all[j].add(one, n)
	}
}

// typeOf returns the type of a column with some traits.
func (c column) typeOf(t *traits) v1alpha1.SummaryColumnType {
	var known [families]bool
	for f, n := range t.families {
		known[f] = n > 0
	}
	if c.program != nil {
		known[c.program.family()] = true
	}
	if c.as == v1alpha1.SummaryCount {
		known = [families]bool{number: true}
	}
	return columnType(known, t.fractions > 0 || c.isFloat())
}

// isFloat reports whether the values are floats even without fractions.
func (c column) isFloat() bool {
	return c.program != nil && c.as != v1alpha1.SummaryCount && c.program.resultType.TypeName() == "double"
}
