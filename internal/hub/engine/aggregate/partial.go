package aggregate

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Partial is what the values of a column come to in one group, so that it can be merged with
// that of other objects or locations: an average keeps sum and number. Merge is exact,
// associative and commutative.
type Partial struct {
	// count is how many values are not null.
	count int64
	// of has what there is of each family, in order.
	of []part
	// formats counts quantities by their formats.
	formats [decimalExponent + 1]int64
}

// part is what there is of one family.
type part struct {
	family family
	n      int64
	sum    amount
	// least and most are given in what is merged.
	least, most *Value
}

func (p *Partial) part(f family) *part {
	i, found := slices.BinarySearchFunc(p.of, f, func(a part, f family) int { return int(a.family) - int(f) })
	if !found {
		p.of = slices.Insert(p.of, i, part{family: f})
	}
	return &p.of[i]
}

// Merge is what two come to together.
func (p Partial) Merge(o Partial) Partial {
	p.count += o.count
	p.of = slices.Clone(p.of)
	for i := range p.formats {
		p.formats[i] += o.formats[i]
	}
	for _, b := range o.of {
		p.part(b.family).merge(b)
	}
	return p
}

func (p *part) merge(o part) {
	p.n, p.sum = p.n+o.n, p.sum.plus(o.sum)
	if p.least == nil || o.least != nil && o.least.compare(*p.least) < 0 {
		p.least = o.least
	}
	if p.most == nil || o.most != nil && o.most.compare(*p.most) > 0 {
		p.most = o.most
	}
}

// one is all of a Partial if it can be combined: what is of one family, or numbers, which
// are quantities without a unit, with quantities.
func (p Partial) one() (one part, ok bool) {
	for _, next := range p.of {
		switch {
		case next.n == 0:
		case one.n == 0:
			one = next
		case one.family == number && next.family == quantity:
			one.family, one.least, one.most = quantity, one.least.as(quantity), one.most.as(quantity)
			one.merge(next)
		default:
			return part{}, false
		}
	}
	return one, true
}

// as is a value in another family.
func (v *Value) as(f family) *Value {
	if v == nil {
		return nil
	}
	other := *v
	other.family = f
	return &other
}

// result is the value that a column shows; mixed says that there is none because its values
// can't be combined with each other.
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
	v = Value{family: all.family, of: all.sum}
	if v.family == quantity {
		v.format = p.format()
	}
	if as == v1alpha1.SummaryAverage {
		v.of = average(v, all.n)
	}
	return v, false
}

// format is that of a quantity that was made of several: binary if any was.
func (p Partial) format() byte {
	switch {
	case p.formats[binarySI] > 0:
		return binarySI
	case p.formats[decimalSI] == 0 && p.formats[decimalExponent] > 0:
		return decimalExponent
	}
	return decimalSI
}

// average divides a sum. What has a fraction without end is rounded: to more digits than a
// float has, or to those that are of use.
func average(sum Value, n int64) amount {
	const (
		ofNumber   = 20
		ofQuantity = 3
	)
	switch {
	case sum.family == number:
		return sum.of.over(n, ofNumber)
	case sum.family == quantity && sum.format != binarySI:
		return sum.of.over(n, ofQuantity)
	}
	return sum.of.over(n, 0) // bytes, nanoseconds
}
