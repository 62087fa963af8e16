// Package fieldset selects parts of a decoded JSON value by a set of fields, in the format of
// managedFields. It must not depend on kinds, schemas or owners of fields.
package fieldset

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Select returns the part of a value that is in a set. If the set contains a field without its parts,
// the whole field is included.
func Select(v any, set *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		selected := map[string]any{}
		for name, in := range v {
			if pe := fieldpath.FieldNameElement(name); Contains(set, pe) {
				selected[name] = below(in, set, pe)
			}
		}
		return selected
	case []any:
		selected := []any{}
		all := Children(set)
		for i, in := range v {
			index := slices.IndexFunc(all, func(pe fieldpath.PathElement) bool { return identifies(pe, in, i) })
			if index >= 0 {
				selected = append(selected, below(in, set, all[index]))
			}
		}
		return selected
	}
	return v
}

// below returns the part of an element that is in a set: the whole element, if the set does not
// contain its parts.
func below(v any, set *fieldpath.Set, pe fieldpath.PathElement) any {
	if _, some := set.Children.Get(pe); !some {
		return v
	}
	return Select(v, set.WithPrefix(pe))
}

// identifies reports whether a path element identifies the i-th element of a list.
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

// Whole returns a set with the whole of each list element of which a set has a part.
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

// Children returns the fields or elements directly below the root of a set.
func Children(set *fieldpath.Set) (all []fieldpath.PathElement) {
	set.Members.Iterate(func(pe fieldpath.PathElement) { all = append(all, pe) })
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		if !set.Members.Has(pe) {
			all = append(all, pe)
		}
	})
	return all
}

// Contains reports whether a set contains a field or element directly below its root, or a part of it.
func Contains(set *fieldpath.Set, pe fieldpath.PathElement) bool {
	_, ok := set.Children.Get(pe)
	return ok || set.Members.Has(pe)
}

// Matches reports whether an element as written may be the one that list-map keys identify,
// possibly with defaults, and whether it surely is.
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
