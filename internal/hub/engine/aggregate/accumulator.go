package aggregate

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
)

// accumulator maintains the Partial of values that are added and removed.
type accumulator struct {
	p Partial
	// values counts each value, in order; for MIN and MAX only.
	values *btree.BTreeG[counted]
}

// counted is a value and its number.
type counted struct {
	Value
	n int64
}

// degree is the degree of the trees of a group, which are mostly small.
const degree = 8

func newAccumulator(as v1alpha1.SummaryCombineType) accumulator {
	var a accumulator
	if as == v1alpha1.SummaryMin || as == v1alpha1.SummaryMax {
		a.values = btree.NewBTreeGOptions(func(a, b counted) bool { return a.compare(b.Value) < 0 }, btree.Options{NoLocks: true, Degree: degree})
	}
	return a
}

// add adds a value n times, which is 1 or -1.
func (a *accumulator) add(v Value, n int64) {
	if v.family == null {
		return
	}
	a.p.count += n
	p := a.p.familyPartial(v.family)
	p.n += n
	if v.family == quantity {
		a.p.formats[v.format] += n
	}
	switch {
	case a.values != nil:
		old, _ := a.values.Get(counted{Value: v})
		if old.n+n == 0 {
			a.values.Delete(counted{Value: v})
		} else {
			a.values.Set(counted{v, old.n + n})
		}
	case v.family.adds():
		delta := v.amount
		if n < 0 {
			delta = delta.negated()
		}
		p.sum = p.sum.plus(delta)
	}
}

// adds reports whether values of the family can be added.
func (f family) adds() bool { return f == number || f == quantity || f == duration }

// ordered reports whether values of the family have a meaningful order.
func (f family) ordered() bool { return f.adds() || f == instant || f == text }

// partial returns the combination of the values.
func (a *accumulator) partial() Partial {
	if a.values == nil {
		return a.p
	}
	p := Partial{count: a.p.count, formats: a.p.formats}
	for _, one := range a.p.families {
		if one.n > 0 {
			one.least, one.most = a.edges(one.family)
			p.families = append(p.families, one)
		}
	}
	return p
}

// edges returns the least and the greatest value of a family that has values.
func (a *accumulator) edges(f family) (least, most *Value) {
	first, _ := a.values.Min()
	last, _ := a.values.Max()
	if first.family == f && last.family == f {
		return &first.Value, &last.Value
	}
	a.values.Scan(func(c counted) bool { // several families
		if c.family == f {
			if least == nil {
				least = &c.Value
			}
			most = &c.Value
		}
		return c.family <= f
	})
	return least, most
}
