package aggregate

import "orrery.dev/orrery/apis/v1alpha1"

// trait is what the type of a column goes by in one value: its family, whether it has a
// fraction, and whether it is null since what it was to be made of can't be combined.
type trait uint8

const (
	isFraction trait = 1 << 6
	isMixed    trait = 1 << 7
)

func traitOf(v Value, mixed bool) trait {
	t := trait(v.family)
	if !v.of.isWhole() {
		t |= isFraction
	}
	if mixed {
		t |= isMixed
	}
	return t
}

// traits counts those of the values of a column in all rows.
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

// columns is how many columns a row has.
func (d *Definition) columns() int { return len(d.keys) + len(d.combined) }

func (d *Definition) column(j int) column {
	if j < len(d.keys) {
		return d.keys[j]
	}
	return d.combined[j-len(d.keys)]
}

// cell is the value of a row in a column; mixed says that it is null because what it is made
// of can't be combined.
func (d *Definition) cell(r *Row, j int) (v Value, mixed bool) {
	if j < len(d.keys) {
		return r.keys[j], false
	}
	j -= len(d.keys)
	return r.partials[j].result(d.combined[j].as)
}

// traitsOf are the traits of a row's values, in memory that is given for it.
func (d *Definition) traitsOf(r *Row, in []trait) []trait {
	in = in[:0]
	for j := range d.columns() {
		in = append(in, traitOf(d.cell(r, j)))
	}
	return in
}

// tally counts the traits of a row n times, which is 1 or -1.
func (d *Definition) tally(all []traits, of []trait, n int64) {
	for j, one := range of {
		all[j].add(one, n)
	}
}

// typeOf is the type of a column whose values have some traits.
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

// isFloat says that its values are floats, whatever their fractions.
func (c column) isFloat() bool {
	return c.program != nil && c.as != v1alpha1.SummaryCount && c.program.gives.TypeName() == "double"
}
