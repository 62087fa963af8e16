package fields

import (
	"slices"

	"orrery.dev/orrery/internal/lib/fieldset"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/protocol/rulepath"
)

// place returns the field path at the target of a location in the object. It returns false if the path leads
// through an element of a list that the target does not have yet.
func (x *Lease) place(object any, l rulepath.Location) (p fieldpath.Path, there bool, err error) {
	known, owned, live := x.known, x.live, any(x.object)
	for i, step := range l {
		var pe fieldpath.PathElement
		switch step := step.(type) {
		case string:
			if pe = fieldpath.FieldNameElement(step); !hasParts(known, isField) {
				return nil, false, errWhole
			}
			object, live = fieldOf(object, step), fieldOf(live, step)
		case int:
			list, _ := object.([]any)
			object = list[step]
			element, found, err := elementOf(known, list, step)
			if err != nil {
				return nil, false, err
			}
			if i+1 < len(l) && isKey(known, l[i+1]) {
				return nil, false, errListed
			}
			if pe = element; !found || !fieldset.Contains(owned, element) {
				if x.object == nil {
					return nil, false, errUnowned
				}
				if pe, found = elementLike(known, live, object); !found {
					return nil, false, nil
				}
			}
			live = elementAt(live, pe)
		}
		p, known, owned = append(p, pe), known.WithPrefix(pe), owned.WithPrefix(pe)
	}
	return p, true, nil
}

func fieldOf(v any, name string) any {
	fields, _ := v.(map[string]any)
	return fields[name]
}

// elementLike returns the element of a list at the target that has the list-map keys of a written element,
// perhaps with defaults. It returns false if there is none.
func elementLike(s *fieldpath.Set, list, like any) (found fieldpath.PathElement, ok bool) {
	elements, _ := list.([]any)
	names := keys(s)
	for _, element := range elements {
		var key []any
		for _, name := range names {
			key = append(key, name, fieldOf(element, name))
		}
		pe := fieldpath.PathElement{Key: fieldpath.KeyByFields(key...)}
		if is, _ := fieldset.Matches(like, pe); is {
			return pe, true
		}
	}
	return found, false
}

// elementAt returns the element of a list that has a key; nil: there is none.
func elementAt(list any, pe fieldpath.PathElement) any {
	elements, _ := list.([]any)
	for _, element := range elements {
		if _, is := fieldset.Matches(element, pe); is {
			return element
		}
	}
	return nil
}

func hasParts(s *fieldpath.Set, isMatch func(fieldpath.PathElement) bool) bool {
	return slices.ContainsFunc(fieldset.Children(s), isMatch)
}

func isField(pe fieldpath.PathElement) bool { return pe.FieldName != nil }

func isElement(pe fieldpath.PathElement) bool { return pe.Key != nil }

// keys returns the names of the list-map keys of a list.
func keys(s *fieldpath.Set) (names []string) {
	for _, pe := range fieldset.Children(s) {
		if isElement(pe) && names == nil {
			for _, f := range *pe.Key {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// isKey reports whether a field is a list-map key.
func isKey(s *fieldpath.Set, field any) bool {
	name, ok := field.(string)
	return ok && slices.Contains(keys(s), name)
}

// elementOf returns the element of a set that identifies the i-th element of a list. It returns false if there
// is none.
func elementOf(s *fieldpath.Set, list []any, i int) (found fieldpath.PathElement, ok bool, err error) {
	if !hasParts(s, isElement) {
		if hasParts(s, func(pe fieldpath.PathElement) bool { return pe.Value != nil }) {
			return found, false, errMember
		}
		return found, false, errWhole
	}
	n := 0
	for _, pe := range fieldset.Children(s) {
		is, surely := fieldset.Matches(list[i], pe)
		switch {
		case surely:
			return pe, true, nil
		case !is, slices.ContainsFunc(list, func(other any) bool { _, surely := fieldset.Matches(other, pe); return surely }):
		default:
			found, n = pe, n+1
		}
	}
	if n > 1 {
		return found, false, errTwice
	}
	return found, n == 1, nil
}

// grow adds to an object the fields that are owned but not in it. It adds no elements to lists: an element that
// is not written any more is removed, with its released values.
func grow(v any, owned *fieldpath.Set) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if pe, ok, err := elementOf(owned, v, i); ok && err == nil {
				v[i] = grow(v[i], owned.WithPrefix(pe))
			}
		}
		return v
	case map[string]any:
		for _, pe := range fieldset.Children(owned) {
			if isField(pe) {
				v[*pe.FieldName] = grow(v[*pe.FieldName], owned.WithPrefix(pe))
			}
		}
		return v
	case nil:
		if hasParts(owned, isField) {
			return grow(map[string]any{}, owned)
		}
	}
	return v
}
