package placement

import (
	"slices"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Admission says of which spaces a Location admits anything. It is the Membership of the
// Location's own row, so that a change is one of that row; the row belongs to no location.
// A Location that admits all spaces, those to come included, has none. It is immutable.
type Admission struct {
	spaces []key.Space // in order
}

var _ table.Membership = (*Admission)(nil)

// admissionOf is the Admission by a spec.admit in a state; nil: all spaces.
func admissionOf(state table.Reader, a *admit) *Admission {
	if a.everySpace {
		return nil
	}
	of := &Admission{}
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	state.Ascend(prefix, func(row *table.Row) bool {
		if s := key.Space(row.Key[len(prefix):]); a.admitsSpace(tenant{s, row.Meta.Labels}) {
			of.spaces = append(of.spaces, s)
		}
		return true
	})
	return of
}

// with is the Admission with or without a space.
func (a *Admission) with(s key.Space, admitted bool) *Admission {
	i, found := slices.BinarySearch(a.spaces, s)
	switch {
	case found == admitted:
		return a
	case admitted:
		return &Admission{slices.Insert(slices.Clone(a.spaces), i, s)}
	}
	return &Admission{slices.Delete(slices.Clone(a.spaces), i, i+1)}
}

// Admits says whether the Location admits a space.
func (a *Admission) Admits(s key.Space) bool {
	_, ok := slices.BinarySearch(a.spaces, s)
	return ok
}

// Shown says whether a row is to be seen in a space that exists: all are, but Locations
// only where they admit anything. In root they always are.
func Shown(row *table.Row, s key.Space) bool {
	a, ok := row.In.(*Admission)
	return !ok || s == key.Root || a.Admits(s)
}

// Members are none.
func (a *Admission) Members() []key.Location { return nil }

// Has is false.
func (a *Admission) Has(key.Location) bool { return false }

// SameAt is true: no location hears of it.
func (a *Admission) SameAt(key.Location, table.Membership) bool { return true }
