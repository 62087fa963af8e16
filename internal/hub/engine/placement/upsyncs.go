package placement

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxSpaceUpsyncs bounds the entries of one space at a location, in bytes of JSON. maxUpsyncs
	// bounds the entries of all spaces, since the agent gets them in one frame.
	maxSpaceUpsyncs = 64 << 10
	maxUpsyncs      = 1 << 20
)

// upsyncIndex holds the upsync entries that each location gets from each space. They depend on the
// Placements of the space and on the admission of the location. They are recomputed for the pairs
// of space and location for which one of these changes. Locations with equal entries share them.
type upsyncIndex struct {
	// bySpace holds the Placements with upsync entries, in order.
	bySpace map[key.Space][]upsyncPlacement
	// byLocation holds the entries of a location, ordered by space. Locations without entries are
	// absent.
	byLocation map[key.Location][]*spaceUpsyncs
	pool       pool[spaceUpsyncs]
}

// upsyncPlacement is a Placement with upsync entries, and the locations that get them.
type upsyncPlacement struct {
	*placement
	locations *locationSet
}

// spaceUpsyncs are the entries of one space at a location. It is immutable.
type spaceUpsyncs struct {
	space   key.Space
	entries []wire.Upsync
	bytes   int
	// incomplete reports whether entries were dropped because of maxSpaceUpsyncs.
	incomplete bool
}

func newUpsyncIndex() upsyncIndex {
	return upsyncIndex{bySpace: map[key.Space][]upsyncPlacement{}, byLocation: map[key.Location][]*spaceUpsyncs{}}
}

// recheckUpsyncs records that the entries of a space, or their locations, may have changed.
func (s *step) recheckUpsyncs(space key.Space) {
	if !s.upsyncsChanged[space] {
		s.upsyncsChanged[space] = false
	}
}

// updateUpsyncs recomputes the upsync entries of locations. moved are the locations that have
// changed.
func (s *step) updateUpsyncs(moved []key.Location) {
	for _, c := range s.placed {
		s.recheckUpsyncs(c.Space)
	}
	if len(moved) > 0 {
		for space := range s.upsyncs.bySpace {
			s.recheckUpsyncs(space)
		}
	}
	again := map[key.Location]map[key.Space]bool{}
	mark := func(space key.Space, l key.Location) {
		if again[l] == nil {
			again[l] = map[key.Space]bool{}
		}
		again[l][space] = true
	}
	for space, anew := range s.upsyncsChanged {
		for _, l := range s.updateUpsyncPlacements(space, anew) {
			mark(space, l)
		}
	}
	for _, l := range moved {
		for space := range s.upsyncs.bySpace {
			mark(space, l)
		}
		for _, current := range s.upsyncs.byLocation[l] {
			mark(current.space, l)
		}
	}
	known := map[string]*spaceUpsyncs{}
	for l, spaces := range again {
		s.updateLocationUpsyncs(l, spaces, known)
	}
}

// updateUpsyncPlacements recomputes the Placements of a space that have upsync entries. It returns
// the locations whose entries may have changed. anew demands all their locations, since the space
// itself has changed.
func (s *step) updateUpsyncPlacements(space key.Space, anew bool) (moved []key.Location) {
	old := s.upsyncs.bySpace[space]
	var now []upsyncPlacement
	if _, going := s.going[space]; !going {
		for p := range s.placing(space) {
			if len(p.upsync) > 0 {
				now = append(now, upsyncPlacement{p, p.upsyncLocations(s.locations, &s.sets)})
			}
		}
	}
	for _, a := range old {
		if anew || !slices.Contains(now, a) {
			moved = append(moved, a.locations.names...)
		}
	}
	for _, a := range now {
		if anew || !slices.Contains(old, a) {
			moved = append(moved, a.locations.names...)
		}
	}
	if len(now) > 0 {
		s.upsyncs.bySpace[space] = now
	} else {
		delete(s.upsyncs.bySpace, space)
	}
	return moved
}

// updateLocationUpsyncs recomputes the entries of some spaces at a location.
func (s *step) updateLocationUpsyncs(l key.Location, spaces map[key.Space]bool, known map[string]*spaceUpsyncs) {
	old := s.upsyncs.byLocation[l]
	now := slices.Clone(old)
	for space := range spaces {
		i, found := slices.BinarySearchFunc(now, space, func(current *spaceUpsyncs, space key.Space) int { return cmp.Compare(current.space, space) })
		switch current := s.upsyncsOf(space, l, known); {
		case current == nil && found:
			now = slices.Delete(now, i, i+1)
		case current == nil:
		case found:
			now[i] = current
		default:
			now = slices.Insert(now, i, current)
		}
	}
	if slices.Equal(old, now) {
		return
	}
	if len(now) > 0 {
		s.upsyncs.byLocation[l] = now
	} else {
		delete(s.upsyncs.byLocation, l)
	}
	s.unsettled[key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}] = struct{}{}
}

// upsyncsOf returns the entries of a space at a location, or nil. known caches the results of this
// step.
func (s *step) upsyncsOf(space key.Space, l key.Location, known map[string]*spaceUpsyncs) *spaceUpsyncs {
	if s.locations[l] == nil {
		return nil
	}
	g := s.gates.byLocation[l]
	k := []byte(space)
	k = append(k, 0)
	if g != nil {
		k = append(appendText(append(k, 1), g.terms.text), g.terms.placing...)
	}
	some := false
	for _, a := range s.upsyncs.bySpace[space] {
		in := a.locations.contains(l)
		k, some = append(k, 2, bit(in)), some || in
	}
	if !some {
		return nil
	}
	if current, ok := known[string(k)]; ok {
		return current
	}
	var current *spaceUpsyncs
	admit, t := s.gates.admit(l), tenantOf(s.state, space)
	if !admit.mutes(t) {
		var all []wire.Upsync
		for _, a := range s.upsyncs.bySpace[space] {
			if !a.locations.contains(l) {
				continue
			}
			for _, entry := range a.upsync {
				all = append(all, admit.cut(t, entry)...)
			}
		}
		current = s.upsyncs.make(space, all)
	}
	known[string(k)] = current
	return current
}

// make interns the entries of a space; nil if there are none.
func (u *upsyncIndex) make(space key.Space, all []wire.Upsync) *spaceUpsyncs {
	texts, byText := []string(nil), map[string]wire.Upsync{}
	for _, entry := range all {
		entry.Space = string(space)
		text, err := json.Marshal(entry)
		if err != nil { // cannot happen: it holds only strings
			continue
		}
		texts = append(texts, string(text))
		byText[string(text)] = entry
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return u.pool.get(strings.Join(texts, "\n"), func() *spaceUpsyncs {
		current := &spaceUpsyncs{space: space}
		for _, text := range texts {
			if current.bytes+len(text) > maxSpaceUpsyncs {
				current.incomplete = true
				continue
			}
			current.bytes += len(text)
			current.entries = append(current.entries, byText[text])
		}
		return current
	})
}

// Upsyncs are the entries by which a Location reports objects of its cluster to spaces: the objects
// that no Placement put there and that match an entry. They are part of the Membership of the
// Location's row.
type Upsyncs []*spaceUpsyncs

// UpsyncsOf returns the upsync entries of a Location, by its row.
func UpsyncsOf(row *table.Row) Upsyncs {
	if row == nil {
		return nil
	}
	if current, ok := row.In.(*Admission); ok {
		return current.upsyncs
	}
	return nil
}

// Entries returns all entries, ordered by space. incomplete reports whether entries were dropped
// because of maxSpaceUpsyncs or maxUpsyncs.
func (a Upsyncs) Entries() (entries []wire.Upsync, incomplete bool) {
	bytes := 0
	for _, current := range a {
		incomplete = incomplete || current.incomplete
		if bytes += current.bytes; bytes > maxUpsyncs {
			return entries, true
		}
		entries = append(entries, current.entries...)
	}
	return entries, incomplete
}

// For reports whether an entry matches an object of a space. placing is the namespace mapping of
// the Location.
func (a Upsyncs) For(o key.Object, placing key.Placing) bool {
	bytes := 0
	for _, current := range a {
		if bytes += current.bytes; bytes > maxUpsyncs || current.space > o.Space {
			return false
		}
		if current.space == o.Space {
			return placing.Admits(o.Resource, o.Namespace) && slices.ContainsFunc(current.entries, func(entry wire.Upsync) bool { return upsyncMatches(entry, o.Identity) })
		}
	}
	return false
}

// Equal reports whether both have the same entries. It compares interned pointers.
func (a Upsyncs) Equal(b Upsyncs) bool { return slices.Equal(a, b) }

// Spaces returns the spaces with entries, in order.
func (a Upsyncs) Spaces() []key.Space {
	spaces := make([]key.Space, len(a))
	for i, current := range a {
		spaces[i] = current.space
	}
	return spaces
}
