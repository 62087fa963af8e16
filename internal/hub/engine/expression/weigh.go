package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// unfolded returns of how many parts a value consists when it is walked through. A part that is
// there several times counts several times, though it takes memory once. It stops counting
// when there are more than most.
func unfolded(v ref.Val, most int) int {
	switch v := v.(type) {
	case types.String:
		return 1 + len(v)/bytesPerStep
	case types.Bytes:
		return 1 + len(v)/bytesPerStep
	case *types.Optional:
		if v.HasValue() {
			return 1 + unfolded(v.GetValue(), most)
		}
	case traits.Lister:
		return unfoldedList(v, most)
	case traits.Mapper:
		return unfoldedMap(v, most)
	}
	return 1
}

func unfoldedList(l traits.Lister, most int) int {
	switch elements := l.Value().(type) {
	case []any:
		return unfoldedJSON(elements, most)
	case []ref.Val:
		n := 1
		for _, v := range elements {
			if n += unfolded(v, most-n); n > most {
				break
			}
		}
		return n
	}
	n, size := 1, lengthOf(l)
	for i := 0; i < size && n <= most; i++ {
		n += unfolded(l.Get(types.Int(i)), most-n)
	}
	return n
}

func unfoldedMap(m traits.Mapper, most int) int {
	switch fields := m.Value().(type) {
	case map[string]any:
		return unfoldedJSON(fields, most)
	case map[ref.Val]ref.Val:
		n := 1
		for k, v := range fields {
			if n += unfolded(k, most-n) + unfolded(v, most-n); n > most {
				break
			}
		}
		return n
	}
	n := 1
	for it := m.Iterator(); it.HasNext() == types.True && n <= most; {
		k := it.Next()
		n += unfolded(k, most-n) + unfolded(m.Get(k), most-n)
	}
	return n
}

// unfoldedJSON is unfolded of what Decode gives.
func unfoldedJSON(v any, most int) int {
	n := 1
	switch v := v.(type) {
	case string:
		return n + len(v)/bytesPerStep
	case []any:
		for _, element := range v {
			if n += unfoldedJSON(element, most-n); n > most {
				break
			}
		}
	case map[string]any:
		for k, field := range v {
			if n += 1 + len(k)/bytesPerStep + unfoldedJSON(field, most-n); n > most {
				break
			}
		}
	case ref.Val:
		return unfolded(v, most)
	}
	return n
}

// compared returns how many pairs of parts a comparison of two values looks at, at most. It does
// not end at the first difference, so that it does not depend on the order of a map.
func compared(a, b ref.Val, most int) int {
	n := 1
	switch a := a.(type) {
	case types.String:
		if b, ok := b.(types.String); ok {
			return n + min(len(a), len(b))/bytesPerStep
		}
	case types.Bytes:
		if b, ok := b.(types.Bytes); ok {
			return n + min(len(a), len(b))/bytesPerStep
		}
	case *types.Optional:
		if b, ok := b.(*types.Optional); ok && a.HasValue() && b.HasValue() {
			return n + compared(a.GetValue(), b.GetValue(), most-n)
		}
	case traits.Lister:
		b, ok := b.(traits.Lister)
		if !ok || lengthOf(a) != lengthOf(b) {
			return n
		}
		size := lengthOf(a)
		for i := 0; i < size && n <= most; i++ {
			n += compared(a.Get(types.Int(i)), b.Get(types.Int(i)), most-n)
		}
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		if !ok || a.Size() != b.Size() {
			return n
		}
		for it := unordered(a).Iterator(); it.HasNext() == types.True && n <= most; n++ {
			k := it.Next()
			if other, found := b.Find(k); found {
				n += compared(a.Get(k), other, most-n)
			}
		}
	}
	return n
}

// unordered is a map whose keys come in any order, which takes less time.
func unordered(m traits.Mapper) traits.Mapper {
	if o, ok := m.(ordered); ok {
		return o.Mapper
	}
	return m
}

// isScalar reports whether a value is compared in next to no time. Texts are not.
func isScalarValue(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Uint, types.Double, types.Bool, types.Null, types.Duration, types.Timestamp:
		return true
	}
	return false
}

// ConversionCost returns what JSON costs for a value and some room, in CEL's units. It depends on the value alone, and
// takes less time than JSON. Single values and short texts cost nothing.
func ConversionCost(v ref.Val, room int) uint64 {
	const stepsPerValue = 2 // each is converted and encoded
	most := room/bytesOfValue + room/bytesPerStep
	size := min(unfolded(v, most), most)                         // JSON gives up a larger value
	return uint64(max(0, size-1) * stepsPerValue / stepsPerCost) // #nosec G115 -- it is not negative
}
