package progress

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// unassigned holds the pairs that a location reports without assignment, or whose removal the location has not
// confirmed: objects that are being removed, and objects that stay. Tracker.mu guards it.
type unassigned struct {
	pairs *btree.BTreeG[pair]
	stays map[pair]struct{}
	// released are the pairs whose objects stay by the policy onRemove.
	released map[pair]struct{}
	counts   map[key.Location]v1alpha1.LeftCounts // by location
}

func newUnassigned() unassigned {
	return unassigned{
		pairs: btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}),
		stays: map[pair]struct{}{}, released: map[pair]struct{}{}, counts: map[key.Location]v1alpha1.LeftCounts{},
	}
}

// isUnassigned reports whether a location reports an object that is not assigned to it, or has yet
// to confirm that it is gone.
func (o *object) isUnassigned(location key.Location) bool {
	report := o.reportOf(location)
	switch {
	case o.leaves != nil && o.leaves.Contains(location):
		return !objectstate.Removed(report, o.uid)
	case report == nil, o.as != nil && o.as.Contains(location):
		return false
	}
	return !objectstate.Removed(report, "")
}

// update updates whether a location has an object that is not assigned to it. It reports whether the counts of the
// location may have changed.
func (u *unassigned) update(o *object, location key.Location) bool {
	p := pair{o.path, location}
	found := o.isUnassigned(location)
	_, isKnown := u.pairs.Get(p)
	_, stayed := u.stays[p]
	var left objectstate.Status
	if found {
		left = objectstate.Left(o.reportOf(location), false)
	}
	now := left.Stays()
	if left.State == wire.Orphaned && !now {
		u.released[p] = struct{}{}
	} else {
		delete(u.released, p)
	}
	if isKnown == found && stayed == now {
		return false
	}
	c := u.counts[location]
	switch { // as it was counted before
	case stayed:
		c.Leftovers--
		delete(u.stays, p)
	case isKnown:
		c.Leaving--
	}
	switch {
	case now:
		c.Leftovers++
		u.stays[p] = struct{}{}
	case found:
		c.Leaving++
	}
	if found {
		u.pairs.Set(p)
	} else {
		u.pairs.Delete(p)
	}
	if u.counts[location] = c; c == (v1alpha1.LeftCounts{}) {
		delete(u.counts, location)
	}
	return true
}

// countOf returns the counts of one pair for its Placements. An object that stays by their policy is not counted.
func (u *unassigned) countOf(p pair) (c v1alpha1.LeftCounts) {
	_, found := u.pairs.Get(p)
	_, stays := u.stays[p]
	_, released := u.released[p]
	switch {
	case stays:
		c.Leftovers = 1
	case found && !released:
		c.Leaving = 1
	}
	return c
}

// countsOf returns the counts of all pairs of an object for its Placements.
func (u *unassigned) countsOf(path string) (c v1alpha1.LeftCounts) {
	u.pairs.Ascend(pair{path: path}, func(p pair) bool {
		if p.path != path {
			return false
		}
		one := u.countOf(p)
		c.Leaving, c.Leftovers = c.Leaving+one.Leaving, c.Leftovers+one.Leftovers
		return true
	})
	return c
}
