package placement

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/protocol/key"
)

// locationSet is an interned set of locations. It is immutable.
type locationSet struct {
	id    uint64 // never used again for another content
	names []key.Location
	// needs are the needs of each location, in order of names; nil if there are none.
	needs []*need
}

// need is an interned text of what is needed of a location; nil is an empty one. It may be long,
// and many sets and classes have it, so it is held once and hashed once.
type need struct {
	text string
	sum  [sha256.Size]byte
}

// String is the text.
func (n *need) String() string {
	if n == nil {
		return ""
	}
	return n.text
}

// id is another text for each need, all of one size.
func (n *need) id() []byte {
	if n == nil {
		return make([]byte, sha256.Size)
	}
	return n.sum[:]
}

func (s *locationSet) has(location key.Location) bool {
	_, ok := slices.BinarySearch(s.names, location)
	return ok
}

// at says whether a location is in the set, and its needs.
func (s *locationSet) at(location key.Location) (needs *need, ok bool) {
	i, ok := slices.BinarySearch(s.names, location)
	if !ok || s.needs == nil {
		return nil, ok
	}
	return s.needs[i], true
}

// locationSets interns sets, so that a thousand spaces with the same selector share the
// names.
type locationSets struct {
	pool  pool[locationSet]
	needs pool[need]
	last  uint64
}

// of gives the set of some names, which are in order, and what is needed of each,
// nil for nothing. The names are not changed from then on.
func (ls *locationSets) of(names []key.Location, needs []string) *locationSet {
	each := make([]*need, len(needs))
	for i, text := range needs {
		each[i] = ls.need(text)
	}
	return ls.ofNeeds(names, each)
}

// need gives the need of a text.
func (ls *locationSets) need(text string) *need {
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	return ls.needs.get(string(sum[:]), func() *need { return &need{text, sum} })
}

// ofNeeds is of for needs of these sets, which are not changed from then on either.
func (ls *locationSets) ofNeeds(names []key.Location, needs []*need) *locationSet {
	if !slices.ContainsFunc(needs, func(n *need) bool { return n != nil }) {
		needs = nil
	}
	var b []byte
	for i, n := range names {
		if b = appendText(b, string(n)); needs != nil {
			b = append(b, needs[i].id()...)
		}
	}
	sum := sha256.Sum256(append(b, bit(needs != nil)))
	return ls.pool.get(string(sum[:]), func() *locationSet {
		ls.last++
		return &locationSet{id: ls.last, names: names, needs: needs}
	})
}

// ofMap gives the set of locations with what is needed of each.
func (ls *locationSets) ofMap(needs map[key.Location]string) *locationSet {
	names := slices.Sorted(maps.Keys(needs))
	each := make([]string, len(names))
	for i, n := range names {
		each[i] = needs[n]
	}
	return ls.of(names, each)
}

// with gives the set with a location and its needs.
func (ls *locationSets) with(s *locationSet, location key.Location, needs string) *locationSet {
	i, found := slices.BinarySearch(s.names, location)
	n := ls.need(needs)
	if was, _ := s.at(location); found && was == n {
		return s
	}
	names, each := s.names, slices.Clone(s.needs)
	if each == nil && n != nil {
		each = make([]*need, len(names))
	}
	if !found {
		names = slices.Insert(slices.Clone(names), i, location)
	}
	switch {
	case each == nil:
	case found:
		each[i] = n
	default:
		each = slices.Insert(each, i, n)
	}
	return ls.ofNeeds(names, each)
}

// without gives the set without a location.
func (ls *locationSets) without(s *locationSet, location key.Location) *locationSet {
	i, found := slices.BinarySearch(s.names, location)
	if !found {
		return s
	}
	names, needs := slices.Delete(slices.Clone(s.names), i, i+1), slices.Clone(s.needs)
	if needs != nil {
		needs = slices.Delete(needs, i, i+1)
	}
	return ls.ofNeeds(names, needs)
}

// union is the union of sets, in order. It shares memory with a set that equals it.
func union(of []*locationSet) []key.Location {
	var all []key.Location
	for _, s := range of {
		if len(all) == 0 {
			all = s.names
			continue
		}
		if len(s.names) == 0 {
			continue
		}
		merged := slices.Concat(all, s.names)
		slices.Sort(merged)
		merged = slices.Compact(merged)
		switch len(merged) {
		case len(all):
		case len(s.names):
			all = s.names
		default:
			all = merged
		}
	}
	return all
}

// locationTest is one compiled entry of a policy's locations.
type locationTest struct {
	criteria[*site]
	// named says that it gives names.
	named bool
}

// compileLocations compiles location selectors. It adds each field once, in the order in
// which fields are tested.
func compileLocations(field string, entries []v1alpha1.LocationSelector) []locationTest {
	tests := make([]locationTest, len(entries))
	for i, entry := range entries {
		t := &tests[i]
		if entry.Selector == nil && len(entry.Names) == 0 {
			t.problem = fmt.Sprintf("%s[%d]: neither selector nor names", field, i)
			continue
		}
		names, selector := given(entry.Names), (*selectors.Selector)(nil)
		t.named = names != nil
		if entry.Selector != nil {
			var err error
			if selector, err = selectors.Compile(entry.Selector); err != nil {
				t.problem = fmt.Sprintf("%s[%d].selector: %v", field, i, err)
			}
		}
		t.add("names", names != nil, func(at *site) bool { return names.Has(string(at.Name)) },
			func(at *site) string { return fmt.Sprintf("location %q is not among the names", at.Name) })
		t.add("selector", entry.Selector != nil, func(at *site) bool { return selector.Matches(at.Labels) },
			func(at *site) string {
				return fmt.Sprintf("%s does not match the location's labels %s", selector, format(at.Labels))
			})
	}
	return tests
}
