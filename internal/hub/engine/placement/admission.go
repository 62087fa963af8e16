package placement

import (
	"slices"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Admission is the Membership of a Location's row: the spaces that the Location admits and the
// objects that spaces ask it to upsync. A Location that admits all spaces, also future ones, and
// that upsyncs nothing has none.
//
// Because the Admission is part of the row, a change of it is a change of the row. The row itself
// is assigned to no location. An Admission is immutable.
type Admission struct {
	*admitted // nil: all spaces
	upsyncs   Upsyncs
}

var _ table.Membership = (*Admission)(nil)

// admitted are the spaces of which a Location admits any object. It is immutable.
type admitted struct {
	spaces []key.Space // in order
}

// locationRow returns the Admission of an existing Location, or nil if it needs none. current is
// what the row has; it is returned again if nothing has changed.
func (s *step) locationRow(l key.Location, current table.Membership) *Admission {
	now := Admission{upsyncs: s.upsyncs.byLocation[l]}
	if g := s.gates.byLocation[l]; g != nil {
		now.admitted = g.admission
	}
	old, ok := current.(*Admission)
	switch {
	case now.admitted == nil && now.upsyncs == nil:
		return nil
	case ok && old.admitted == now.admitted && old.upsyncs.Equal(now.upsyncs):
		return old
	}
	return &now
}

// admissionOf returns the spaces that a spec.admit admits; nil means all spaces.
func admissionOf(state table.Reader, a *admit) *admitted {
	if a.everySpace {
		return nil
	}
	result := &admitted{}
	prefix := key.ResourcePrefix(key.Root, key.Spaces)
	state.Ascend(prefix, func(row *table.Row) bool {
		if s := key.Space(row.Key[len(prefix):]); a.admitsSpace(tenant{s, row.Meta.Labels}) {
			result.spaces = append(result.spaces, s)
		}
		return true
	})
	return result
}

// with returns a copy that contains the space, or does not, as in demands.
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

// Admits reports whether the Location admits a space; nil admits all.
func (a *admitted) Admits(s key.Space) bool {
	if a == nil {
		return true
	}
	_, ok := slices.BinarySearch(a.spaces, s)
	return ok
}

// Shown reports whether a row is visible in an existing space. Only Locations can be invisible: a
// space other than root sees the Locations that admit any of its objects.
func Shown(row *table.Row, s key.Space) bool {
	a, ok := row.In.(*Admission)
	return !ok || s == key.Root || a.Admits(s)
}

// isVisible reports whether a space sees a Location with an existing row: whether that admits any of its objects.
func isVisible(location *table.Row, t tenant) bool {
	return t.name == key.Root || compileAdmit(admitTextOf(location)).admitsSpace(t)
}

// Locations implements table.Membership. It is empty.
func (a *Admission) Locations() []key.Location { return nil }

// Includes implements table.Membership.
func (a *Admission) Includes(key.Location) bool { return false }

// SameAt implements table.Membership. It is true, because no agent is notified of the change.
func (a *Admission) SameAt(key.Location, table.Membership) bool { return true }
