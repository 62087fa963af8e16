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
	// maxSpaceAsks bounds in bytes, as JSON, what one space asks of a location, and maxAsks
	// what all together do, since an agent gets it in one frame.
	maxSpaceAsks = 64 << 10
	maxAsks      = 1 << 20
)

// upsyncs has what spaces ask to see of locations. What each asks of each follows from its
// Placements and from what the location admits; it is computed for the pairs for which one
// of these changes, and shared by locations that are alike.
type upsyncs struct {
	// by has, by space, the Placements that ask for something, in order.
	by map[key.Space][]asker
	// at has what is asked of a location, by space in order; nothing is asked of others.
	at   map[key.Location][]*spaceAsks
	pool pool[spaceAsks]
}

// asker is a Placement that asks for something, and of which locations.
type asker struct {
	*placement
	at *locationSet
}

// spaceAsks is what a space asks of a location. It is immutable.
type spaceAsks struct {
	space key.Space
	asks  []wire.Upsync
	bytes int
	// left says that not all of it is asked, for want of room.
	left bool
}

func newUpsyncs() upsyncs {
	return upsyncs{by: map[key.Space][]asker{}, at: map[key.Location][]*spaceAsks{}}
}

// asksMove notes that a space may ask for something else, or of other locations.
func (s *step) asksMove(space key.Space) {
	if !s.asking[space] {
		s.asking[space] = false
	}
}

// updateAsks brings up to date what is asked of locations, of which some have moved.
func (s *step) updateAsks(moved []key.Location) {
	for _, c := range s.placed {
		s.asksMove(c.Space)
	}
	if len(moved) > 0 {
		for space := range s.upsyncs.by {
			s.asksMove(space)
		}
	}
	again := map[key.Location]map[key.Space]bool{}
	note := func(space key.Space, l key.Location) {
		if again[l] == nil {
			again[l] = map[key.Space]bool{}
		}
		again[l][space] = true
	}
	for space, anew := range s.asking {
		for _, l := range s.updateAskers(space, anew) {
			note(space, l)
		}
	}
	for _, l := range moved {
		for space := range s.upsyncs.by {
			note(space, l)
		}
		for _, of := range s.upsyncs.at[l] {
			note(of.space, l)
		}
	}
	known := map[string]*spaceAsks{}
	for l, spaces := range again {
		s.askAgain(l, spaces, known)
	}
}

// updateAskers brings up to date which Placements of a space ask for something, and returns
// the locations for which that may be different; all of them, if the space has changed.
func (s *step) updateAskers(space key.Space, anew bool) (moved []key.Location) {
	was := s.upsyncs.by[space]
	var now []asker
	if _, going := s.going[space]; !going {
		for p := range s.placing(space) {
			if len(p.upsync) > 0 {
				now = append(now, asker{p, p.asks(s.locations, &s.sets)})
			}
		}
	}
	for _, a := range was {
		if anew || !slices.Contains(now, a) {
			moved = append(moved, a.at.names...)
		}
	}
	for _, a := range now {
		if anew || !slices.Contains(was, a) {
			moved = append(moved, a.at.names...)
		}
	}
	if len(now) > 0 {
		s.upsyncs.by[space] = now
	} else {
		delete(s.upsyncs.by, space)
	}
	return moved
}

// askAgain brings up to date what some spaces ask of a location.
func (s *step) askAgain(l key.Location, spaces map[key.Space]bool, known map[string]*spaceAsks) {
	was := s.upsyncs.at[l]
	now := slices.Clone(was)
	for space := range spaces {
		i, found := slices.BinarySearchFunc(now, space, func(of *spaceAsks, space key.Space) int { return cmp.Compare(of.space, space) })
		switch of := s.asksOf(space, l, known); {
		case of == nil && found:
			now = slices.Delete(now, i, i+1)
		case of == nil:
		case found:
			now[i] = of
		default:
			now = slices.Insert(now, i, of)
		}
	}
	if slices.Equal(was, now) {
		return
	}
	if len(now) > 0 {
		s.upsyncs.at[l] = now
	} else {
		delete(s.upsyncs.at, l)
	}
	s.unsettled[key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}] = struct{}{}
}

// asksOf is what a space asks of a location; nil: nothing. known has what was found in this
// step.
func (s *step) asksOf(space key.Space, l key.Location, known map[string]*spaceAsks) *spaceAsks {
	if s.locations[l] == nil {
		return nil
	}
	g := s.gates.of[l]
	k := []byte(space)
	k = append(k, 0)
	if g != nil {
		k = append(appendText(append(k, 1), g.terms.text), g.terms.placing...)
	}
	some := false
	for _, a := range s.upsyncs.by[space] {
		in := a.at.has(l)
		k, some = append(k, 2, bit(in)), some || in
	}
	if !some {
		return nil
	}
	if of, ok := known[string(k)]; ok {
		return of
	}
	var of *spaceAsks
	admit, t := s.gates.admit(l), tenantOf(s.state, space)
	if !admit.mutes(t) {
		var all []wire.Upsync
		for _, a := range s.upsyncs.by[space] {
			if !a.at.has(l) {
				continue
			}
			for _, ask := range a.upsync {
				all = append(all, admit.cut(t, ask)...)
			}
		}
		of = s.upsyncs.make(space, all)
	}
	known[string(k)] = of
	return of
}

// make is what a space asks; nil: nothing.
func (u *upsyncs) make(space key.Space, all []wire.Upsync) *spaceAsks {
	texts, byText := []string(nil), map[string]wire.Upsync{}
	for _, ask := range all {
		ask.Space = string(space)
		text, err := json.Marshal(ask)
		if err != nil { // it has no text that can't be encoded
			continue
		}
		texts = append(texts, string(text))
		byText[string(text)] = ask
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return u.pool.get(strings.Join(texts, "\n"), func() *spaceAsks {
		of := &spaceAsks{space: space}
		for _, text := range texts {
			if of.bytes+len(text) > maxSpaceAsks {
				of.left = true
				continue
			}
			of.bytes += len(text)
			of.asks = append(of.asks, byText[text])
		}
		return of
	})
}

// Asked is what spaces ask to see of a Location: those objects that are born there, and match
// any of the asks of a space. It is part of the Membership of the Location's row.
type Asked []*spaceAsks

// AskedOf is what is asked of a Location, by its row; nil: nothing.
func AskedOf(row *table.Row) Asked {
	if row == nil {
		return nil
	}
	if of, ok := row.In.(*Admission); ok {
		return of.asked
	}
	return nil
}

// Asks are all of them, the spaces in order; left says that they are not all, for want of
// room.
func (a Asked) Asks() (asks []wire.Upsync, left bool) {
	bytes := 0
	for _, of := range a {
		left = left || of.left
		if bytes += of.bytes; bytes > maxAsks {
			return asks, true
		}
		asks = append(asks, of.asks...)
	}
	return asks, left
}

// For says whether an object of a space is asked for, where the Location puts objects.
func (a Asked) For(o key.Object, placing key.Placing) bool {
	bytes := 0
	for _, of := range a {
		if bytes += of.bytes; bytes > maxAsks || of.space > o.Space {
			return false
		}
		if of.space == o.Space {
			return placing.Admits(o.Resource, o.Namespace) && slices.ContainsFunc(of.asks, func(ask wire.Upsync) bool { return asksFor(ask, o.Identity) })
		}
	}
	return false
}

// Equal says whether the same is asked.
func (a Asked) Equal(b Asked) bool { return slices.Equal(a, b) }

// Spaces are the spaces that ask for something, in order.
func (a Asked) Spaces() []key.Space {
	spaces := make([]key.Space, len(a))
	for i, of := range a {
		spaces[i] = of.space
	}
	return spaces
}
