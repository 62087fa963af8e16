package placement

import (
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Admission says of which spaces a Location admits anything, and what spaces ask to see of
// it. It is the Membership of the Location's own row, so that a change is one of that row; the
// row belongs to no location. A Location that admits all spaces, those to come included, and
// of which nothing is asked, has none. It is immutable.
type Admission struct {
	*admitted // nil: all spaces
	asked     Asked
}

var _ table.Membership = (*Admission)(nil)

// admitted are the spaces of which a Location admits anything. It is immutable.
type admitted struct {
	spaces []key.Space // in order
}

// locationRow is the Admission of a Location that exists; nil: it has none. What its
// row has, is, stays while it is the same.
func (s *step) locationRow(l key.Location, is table.Membership) *Admission {
	now := Admission{asked: s.upsyncs.at[l]}
	if g := s.gates.of[l]; g != nil {
		now.admitted = g.admission
	}
	was, ok := is.(*Admission)
	switch {
	case now.admitted == nil && now.asked == nil:
		return nil
	case ok && was.admitted == now.admitted && was.asked.Equal(now.asked):
		return was
	}
	return &now
}

// admissionOf are the spaces that a spec.admit admits in a state; nil: all.
func admissionOf(state table.Reader, a *admit) *admitted {
	if a.everySpace {
		return nil
	}
	of := &admitted{}
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	state.Ascend(prefix, func(row *table.Row) bool {
		if s := key.Space(row.Key[len(prefix):]); a.admitsSpace(tenant{s, row.Meta.Labels}) {
			of.spaces = append(of.spaces, s)
		}
		return true
	})
	return of
}

// with is the same with or without a space.
func (a *admitted) with(s key.Space, in bool) *admitted {
	i, found := slices.BinarySearch(a.spaces, s)
	switch {
	case found == in:
		return a
	case in:
		return &admitted{slices.Insert(slices.Clone(a.spaces), i, s)}
	}
	return &admitted{slices.Delete(slices.Clone(a.spaces), i, i+1)}
}

// Admits says whether the Location admits a space; nil admits all.
func (a *admitted) Admits(s key.Space) bool {
	if a == nil {
		return true
	}
	_, ok := slices.BinarySearch(a.spaces, s)
	return ok
}

// Shown says whether a row is to be seen in a space that exists: all are, but Locations
// only where they admit anything. In root they always are.
func Shown(row *table.Row, s key.Space) bool {
	a, ok := row.In.(*Admission)
	return !ok || s == key.Root || a.Admits(s)
}

// Locations implements table.Membership: there are none.
func (a *Admission) Locations() []key.Location { return nil }

// Includes implements table.Membership.
func (a *Admission) Includes(key.Location) bool { return false }

// SameAt is true: no location hears of it.
func (a *Admission) SameAt(key.Location, table.Membership) bool { return true }
