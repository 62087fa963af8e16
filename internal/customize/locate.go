package customize

import (
	"cmp"
	"slices"
	"strings"

	"github.com/theory/jsonpath/spec"
)

// Location is where one value is in an object: from the outermost in, the names
// of fields (string) and the indexes in lists (int).
type Location []any

// Locate gives the locations of what the path selects in an object, in order and
// each once; none if the object has nothing there. The object is as encoding/json
// or apimachinery decode it; a filter does not see a json.Number as a number.
func (p Path) Locate(object any) []Location {
	nodes := p.query.SelectLocated(object)
	locations := make([]Location, len(nodes))
	for i, n := range nodes {
		locations[i] = locationOf(n.Path)
	}
	slices.SortFunc(locations, compare)
	return slices.CompactFunc(locations, func(a, b Location) bool { return compare(a, b) == 0 })
}

func locationOf(path spec.NormalizedPath) Location {
	l := make(Location, len(path))
	for i, step := range path {
		switch step := step.(type) {
		case spec.Name:
			l[i] = string(step)
		case spec.Index:
			l[i] = int(step)
		}
	}
	return l
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
			return -1 // of one object's locations none gets here
		}
		return 1
	})
}

// contains says whether the value at b is that at a or is in it.
func (l Location) contains(other Location) bool {
	return len(l) <= len(other) && compare(l, other[:len(l)]) == 0
}

// Paths are those of several rules.
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

// Join writes paths as a wire.Policy has them: in order, each once, on a line of
// its own.
func Join(paths []string) string {
	paths = slices.Sorted(slices.Values(paths))
	return strings.Join(slices.Compact(paths), "\n")
}

// Union is everything that is in one of two texts which Join wrote.
func Union(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return Join(slices.Concat(strings.Split(a, "\n"), strings.Split(b, "\n")))
}

// Locate gives the locations of what any of the paths selects, in order, without
// those that are inside others.
func (ps Paths) Locate(object any) []Location {
	var all []Location
	for _, p := range ps {
		all = append(all, p.Locate(object)...)
	}
	slices.SortFunc(all, compare)
	outermost := all[:0]
	for _, l := range all {
		if n := len(outermost); n == 0 || !outermost[n-1].contains(l) {
			outermost = append(outermost, l)
		}
	}
	return outermost
}
