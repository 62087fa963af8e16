// Package fieldset says what of a decoded JSON value is in a set of fields, as managedFields
// have them. It must know nothing of kinds and their schemas, nor of who has which fields.
package fieldset

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Of is what of a value is in a set. Of what the set has without saying anything of its parts
// that is all.
func Of(v any, set *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		part := map[string]any{}
		for name, in := range v {
			if pe := fieldpath.FieldNameElement(name); Has(set, pe) {
				part[name] = below(in, set, pe)
			}
		}
		return part
	case []any:
		part := []any{}
		all := Parts(set)
		for i, in := range v {
			at := slices.IndexFunc(all, func(pe fieldpath.PathElement) bool { return identifies(pe, in, i) })
			if at >= 0 {
				part = append(part, below(in, set, all[at]))
			}
		}
		return part
	}
	return v
}

// below is what of the value of an element is in a set: all of it, if the set says nothing
// of its parts.
func below(v any, set *fieldpath.Set, pe fieldpath.PathElement) any {
	if _, some := set.Children.Get(pe); !some {
		return v
	}
	return Of(v, set.WithPrefix(pe))
}

// identifies says whether a path element is that of the i-th element of a list.
func identifies(pe fieldpath.PathElement, element any, i int) bool {
	switch {
	case pe.Key != nil:
		_, surely := Matches(element, pe)
		return surely
	case pe.Value != nil:
		return value.Equals(value.NewValueInterface(element), *pe.Value)
	}
	return pe.Index != nil && *pe.Index == i
}

// Whole is a set that has all of each element of a list of which a set has a part.
func Whole(set *fieldpath.Set) *fieldpath.Set {
	whole := fieldpath.NewSet()
	set.Iterate(func(p fieldpath.Path) {
		n := len(p)
		if i := slices.IndexFunc(p, func(pe fieldpath.PathElement) bool { return pe.FieldName == nil }); i >= 0 {
			n = i + 1
		}
		whole.Insert(p[:n].Copy())
	})
	return whole
}

// Parts are the fields or elements directly below what a set is of.
func Parts(set *fieldpath.Set) (all []fieldpath.PathElement) {
	set.Members.Iterate(func(pe fieldpath.PathElement) { all = append(all, pe) })
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		if !set.Members.Has(pe) {
			all = append(all, pe)
		}
	})
	return all
}

// Has says whether a set has a field or element directly below what it is of, or some of it.
func Has(set *fieldpath.Set, pe fieldpath.PathElement) bool {
	_, ok := set.Children.Get(pe)
	return ok || set.Members.Has(pe)
}

// Matches says whether an element as it was written may be the one that list-map keys
// identify, perhaps with defaults, and whether it surely is.
func Matches(element any, pe fieldpath.PathElement) (is, surely bool) {
	fields, ok := element.(map[string]any)
	if !ok || pe.Key == nil {
		return false, false
	}
	surely = true
	for _, f := range *pe.Key {
		v, ok := fields[f.Name]
		if ok && !value.Equals(value.NewValueInterface(v), f.Value) {
			return false, false
		}
		surely = surely && ok
	}
	return true, surely
}
