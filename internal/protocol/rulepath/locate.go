package rulepath

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/theory/jsonpath/spec"
)

// Location is the path of one value in an object, from the outside in: field names (string) and
// list indexes (int).
type Location []any

// maxSteps is the maximum number of elements and fields of an object that [*] and filters of all
// rules visit.
const maxSteps = 100_000

// errTooLarge is returned if an object has more values than rules may visit.
var errTooLarge = fmt.Errorf("the paths lead through more than %d elements of the object", maxSteps)

// walk follows paths in one object.
type walk struct {
	steps int
	found []Location
}

// follow adds the locations of the values that path selects in value, which is at location at.
func (w *walk) follow(path []*spec.Segment, value any, location Location) error {
	if len(path) == 0 {
		w.found = append(w.found, slices.Clone(location))
		return nil
	}
	selector, path := path[0].Selectors()[0], path[1:]
	fields, _ := value.(map[string]any)
	elements, _ := value.([]any)
	switch s := selector.(type) {
	case spec.Name:
		if below, ok := fields[string(s)]; ok {
			return w.follow(path, below, append(location, string(s)))
		}
		return nil
	case spec.Index:
		i := int(s)
		if i < 0 {
			i += len(elements)
		}
		if i < 0 || i >= len(elements) {
			return nil
		}
		return w.follow(path, elements[i], append(location, i))
	}
	filter, _ := selector.(*spec.FilterSelector) // otherwise [*]
	for name, below := range fields {
		if err := w.choose(filter, path, below, append(location, name)); err != nil {
			return err
		}
	}
	for i, below := range elements {
		if err := w.choose(filter, path, below, append(location, i)); err != nil {
			return err
		}
	}
	return nil
}

// choose follows path in one of several values, if the filter selects it or is nil.
func (w *walk) choose(filter *spec.FilterSelector, path []*spec.Segment, value any, location Location) error {
	if w.steps++; w.steps > maxSteps {
		return errTooLarge
	}
	if filter == nil || filter.Eval(value, nil) {
		return w.follow(path, value, location)
	}
	return nil
}

// compare orders locations, with a value before the values in it.
func compare(a, b Location) int {
	return slices.CompareFunc(a, b, func(a, b any) int {
		i, isIndex := a.(int)
		j, isIndex2 := b.(int)
		if isIndex && isIndex2 {
			return cmp.Compare(i, j)
		}
		m, isName := a.(string)
		n, isName2 := b.(string)
		if isName && isName2 {
			return cmp.Compare(m, n)
		}
		if isIndex {
			return -1 // does not happen for locations in one object
		}
		return 1
	})
}

// contains reports whether the value at other is the value at l, or inside it.
func (l Location) contains(other Location) bool {
	return len(l) <= len(other) && compare(l, other[:len(l)]) == 0
}

// Paths are the paths of several rules.
type Paths []Path

// ParsePaths parses the output of Join.
func ParsePaths(lines string) (Paths, error) {
	var all Paths
	for line := range strings.Lines(lines) {
		p, err := Parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// MaxJoined is the maximum size in bytes of the joined paths of all rules for one object at one
// location, which the hub sends with the object.
const MaxJoined = 16 << 10

// Join encodes paths for wire.Policy: sorted, without duplicates, one per line.
func Join(paths []string) string {
	paths = slices.Sorted(slices.Values(paths))
	return strings.Join(slices.Compact(paths), "\n")
}

// Locate returns the locations of the values that the paths select, in order, without those inside
// others. The object is decoded as by encoding/json or apimachinery. The only possible error is
// errTooLarge.
func (ps Paths) Locate(object any) ([]Location, error) {
	var w walk
	for _, p := range ps {
		if err := w.follow(p.segments, object, nil); err != nil {
			return nil, err
		}
	}
	all := w.found
	slices.SortFunc(all, compare)
	outermost := all[:0]
	for _, l := range all {
		if n := len(outermost); n == 0 || !outermost[n-1].contains(l) {
			outermost = append(outermost, l)
		}
	}
	return outermost, nil
}
