package rulepath

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/theory/jsonpath/spec"
)

// Location is the path of one value in an object, from the outside in: names of fields
// (string) and indexes in lists (int).
type Location []any

// maxSteps bounds how many elements and fields of an object [*] and filters visit, over
// all rules.
const maxSteps = 100_000

// errTooLarge says that an object has more values than rules may visit.
var errTooLarge = fmt.Errorf("the paths lead through more than %d elements of the object", maxSteps)

// walk follows paths through one object.
type walk struct {
	steps int
	found []Location
}

// follow adds the locations of what path selects in value, which is at the location at.
func (w *walk) follow(path []*spec.Segment, value any, at Location) error {
	if len(path) == 0 {
		w.found = append(w.found, slices.Clone(at))
		return nil
	}
	selector, path := path[0].Selectors()[0], path[1:]
	fields, _ := value.(map[string]any)
	elements, _ := value.([]any)
	switch s := selector.(type) {
	case spec.Name:
		if below, ok := fields[string(s)]; ok {
			return w.follow(path, below, append(at, string(s)))
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
		return w.follow(path, elements[i], append(at, i))
	}
	filter, _ := selector.(*spec.FilterSelector) // or else [*]
	for name, below := range fields {
		if err := w.choose(filter, path, below, append(at, name)); err != nil {
			return err
		}
	}
	for i, below := range elements {
		if err := w.choose(filter, path, below, append(at, i)); err != nil {
			return err
		}
	}
	return nil
}

// choose follows path into one of several values, if the filter selects it or is nil.
func (w *walk) choose(filter *spec.FilterSelector, path []*spec.Segment, value any, at Location) error {
	if w.steps++; w.steps > maxSteps {
		return errTooLarge
	}
	if filter == nil || filter.Eval(value, nil) {
		return w.follow(path, value, at)
	}
	return nil
}

// compare orders locations, a value before what is in it.
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

// contains says whether the value at other is the value at l, or inside it.
func (l Location) contains(other Location) bool {
	return len(l) <= len(other) && compare(l, other[:len(l)]) == 0
}

// Paths are the paths of several rules.
type Paths []Path

// ParsePaths reads what Join wrote.
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

// MaxJoined bounds, in bytes, the joined paths of all rules of one object at one
// location: they are sent to the location with the object.
const MaxJoined = 16 << 10

// Join encodes paths as a wire.Policy has them: sorted, without repeats, one per line.
func Join(paths []string) string {
	paths = slices.Sorted(slices.Values(paths))
	return strings.Join(slices.Compact(paths), "\n")
}

// Locate gives the locations of the values that the paths select, in order, without
// those inside others. The object is as encoding/json or apimachinery decode it. The only
// error says that the object is too large.
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
