package aggregate

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
)

// accumulator is the Partial of values that come and go.
type accumulator struct {
	p Partial
	// values counts each of them, in order, if the least or the most are asked for.
	values *btree.BTreeG[counted]
}

// counted is a value, and how often it is there.
type counted struct {
	Value
	n int64
}

// degree is that of the trees of a group, which are mostly small.
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
	p := a.p.part(v.family)
	p.n += n
	if v.family == quantity {
		a.p.formats[v.format] += n
	}
	switch {
	case a.values != nil:
		was, _ := a.values.Get(counted{Value: v})
		if was.n+n == 0 {
			a.values.Delete(counted{Value: v})
		} else {
			a.values.Set(counted{v, was.n + n})
		}
	case v.family.adds():
		by := v.of
		if n < 0 {
			by = by.negated()
		}
		p.sum = p.sum.plus(by)
	}
}

// adds says that values of the family can be added up.
func (f family) adds() bool { return f == number || f == quantity || f == duration }

// ordered says that one of two values of the family is the lesser one for people.
func (f family) ordered() bool { return f.adds() || f == instant || f == text }

// partial is what the values come to.
func (a *accumulator) partial() Partial {
	if a.values == nil {
		return a.p
	}
	p := Partial{count: a.p.count, formats: a.p.formats}
	for _, one := range a.p.of {
		if one.n > 0 {
			one.least, one.most = a.edges(one.family)
			p.of = append(p.of, one)
		}
	}
	return p
}

// edges are the least and the most value of a family, of which there are some.
func (a *accumulator) edges(f family) (least, most *Value) {
	first, _ := a.values.Min()
	last, _ := a.values.Max()
	if first.family == f && last.family == f {
		return &first.Value, &last.Value
	}
	a.values.Scan(func(c counted) bool { // of a mixture
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
