package aggregate

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Partial is the mergeable combination of the values of a column in one group: an average keeps sum
// and number. Merge is exact, associative and commutative.
type Partial struct {
	// count is the number of values that are not null.
	count int64
	// families holds the combination for each family, in order.
	families []familyPartial
	// formats counts quantities by their formats.
	formats [decimalExponent + 1]int64
}

// familyPartial is the combination of the values of one family.
type familyPartial struct {
	family family
	n      int64
	sum    amount
	// least and most are set in merged Partials.
	least, most *Value
}

func (p *Partial) familyPartial(f family) *familyPartial {
	i, found := slices.BinarySearchFunc(p.families, f, func(a familyPartial, f family) int { return int(a.family) - int(f) })
	if !found {
		p.families = slices.Insert(p.families, i, familyPartial{family: f})
	}
	return &p.families[i]
}

// Merge returns the combination of two Partials.
func (p Partial) Merge(o Partial) Partial {
	p.count += o.count
	p.families = slices.Clone(p.families)
	for i := range p.formats {
		p.formats[i] += o.formats[i]
	}
	for _, b := range o.families {
		p.familyPartial(b.family).merge(b)
	}
	return p
}

func (p *familyPartial) merge(o familyPartial) {
	p.n, p.sum = p.n+o.n, p.sum.plus(o.sum)
	if p.least == nil || o.least != nil && o.least.compare(*p.least) < 0 {
		p.least = o.least
	}
	if p.most == nil || o.most != nil && o.most.compare(*p.most) > 0 {
		p.most = o.most
	}
}

// one returns the combination of all values, if they can be combined: values of one family, or
// quantities with numbers, which are quantities without a unit.
func (p Partial) one() (one familyPartial, ok bool) {
	for _, next := range p.families {
		switch {
		case next.n == 0:
		case one.n == 0:
			one = next
		case one.family == number && next.family == quantity:
			one.family, one.least, one.most = quantity, one.least.as(quantity), one.most.as(quantity)
			one.merge(next)
		default:
			return familyPartial{}, false
		}
	}
	return one, true
}

// as returns a value in another family.
func (v *Value) as(f family) *Value {
	if v == nil {
		return nil
	}
	other := *v
	other.family = f
	return &other
}

// result returns the value for a column. mixed reports whether there is none because the values
// cannot be combined.
func (p Partial) result(as v1alpha1.SummaryCombineType) (v Value, mixed bool) {
	if as == v1alpha1.SummaryCount {
		return count(p.count), false
	}
	all, ok := p.one()
	switch {
	case !ok:
		return Value{}, true
	case all.n == 0 && as == v1alpha1.SummarySum:
		return count(0), false
	case all.n == 0:
		return Value{}, false
	case as == v1alpha1.SummaryMin:
		return *all.least, false
	case as == v1alpha1.SummaryMax:
		return *all.most, false
	}
	v = Value{family: all.family, amount: all.sum}
	if v.family == quantity {
		v.format = p.format()
	}
	if as == v1alpha1.SummaryAverage {
		v.amount = average(v, all.n)
	}
	return v, false
}

// format returns the format of a combined quantity: binary if any quantity has it.
func (p Partial) format() byte {
	switch {
	case p.formats[binarySI] > 0:
		return binarySI
	case p.formats[decimalSI] == 0 && p.formats[decimalExponent] > 0:
		return decimalExponent
	}
	return decimalSI
}

// average divides a sum. Infinite fractions are rounded: to more digits than a float has, or to
// useful ones.
func average(sum Value, n int64) amount {
	const (
		ofNumber   = 20
		ofQuantity = 3
	)
	switch {
	case sum.family == number:
		return sum.amount.over(n, ofNumber)
	case sum.family == quantity && sum.format != binarySI:
		return sum.amount.over(n, ofQuantity)
	}
	return sum.amount.over(n, 0) // bytes, nanoseconds
}
