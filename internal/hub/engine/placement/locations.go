package placement

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/protocol/key"
)

// locationSet is an interned set of locations. It is immutable.
type locationSet struct {
	id    uint64 // never reused for other content
	names []key.Location
	// needs holds the need of each location, in the order of names; nil if all are empty.
	needs []*need
}

// need is an interned text that a policy uses of a location; nil is the empty text. It may be long
// and is part of many sets and classes, so it is stored and hashed once.
type need struct {
	text string
	sum  [sha256.Size]byte
}

// String returns the text.
func (n *need) String() string {
	if n == nil {
		return ""
	}
	return n.text
}

// id returns a hash that identifies the need.
func (n *need) id() []byte {
	if n == nil {
		return make([]byte, sha256.Size)
	}
	return n.sum[:]
}

func (s *locationSet) contains(location key.Location) bool {
	_, ok := slices.BinarySearch(s.names, location)
	return ok
}

// find reports whether a location is in the set, and returns its need.
func (s *locationSet) find(location key.Location) (needs *need, ok bool) {
	i, ok := slices.BinarySearch(s.names, location)
	if !ok || s.needs == nil {
		return nil, ok
	}
	return s.needs[i], true
}

// locationSets interns sets. A thousand spaces with the same selector share one set.
type locationSets struct {
	pool  pool[locationSet]
	needs pool[need]
	last  uint64
}

// intern returns the set of some names, which must be in order, with their needs; nil if there are
// none. The caller must not change the names afterwards.
func (ls *locationSets) intern(names []key.Location, needs []string) *locationSet {
	each := make([]*need, len(needs))
	for i, text := range needs {
		each[i] = ls.need(text)
	}
	return ls.internNeeds(names, each)
}

// need interns a text.
func (ls *locationSets) need(text string) *need {
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	return ls.needs.get(string(sum[:]), func() *need { return &need{text, sum} })
}

// internNeeds is intern for interned needs. The caller must not change them afterwards.
func (ls *locationSets) internNeeds(names []key.Location, needs []*need) *locationSet {
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

// internMap returns the set of locations with their needs.
func (ls *locationSets) internMap(needs map[key.Location]string) *locationSet {
	names := slices.Sorted(maps.Keys(needs))
	each := make([]string, len(names))
	for i, n := range names {
		each[i] = needs[n]
	}
	return ls.intern(names, each)
}

// with returns the set with a location and its need added.
func (ls *locationSets) with(s *locationSet, location key.Location, needs string) *locationSet {
	i, found := slices.BinarySearch(s.names, location)
	n := ls.need(needs)
	if old, _ := s.find(location); found && old == n {
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
	return ls.internNeeds(names, each)
}

// without returns the set without a location.
func (ls *locationSets) without(s *locationSet, location key.Location) *locationSet {
	i, found := slices.BinarySearch(s.names, location)
	if !found {
		return s
	}
	names, needs := slices.Delete(slices.Clone(s.names), i, i+1), slices.Clone(s.needs)
	if needs != nil {
		needs = slices.Delete(needs, i, i+1)
	}
	return ls.internNeeds(names, needs)
}

// union returns the union of sets, in order. It shares memory with a set that is equal to the
// result.
func union(sets []*locationSet) []key.Location {
	var all []key.Location
	for _, s := range sets {
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
	// named reports whether the entry gives names.
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
		t.add("names", names != nil, func(loc *site) bool { return names.Has(string(loc.Name)) },
			func(loc *site) string { return fmt.Sprintf("location %q is not among the names", loc.Name) })
		t.add("selector", entry.Selector != nil, func(loc *site) bool { return selector.Matches(loc.Labels) },
			func(loc *site) string {
				return fmt.Sprintf("%s does not match the location's labels %s", selector, format(loc.Labels))
			})
	}
	return tests
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
