package progress

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// unassigned holds the pairs that a location reports without assignment, or whose removal the location has not
// confirmed: objects that are being removed, and objects that stay. Tracker.mu guards it.
type unassigned struct {
	pairs  *btree.BTreeG[pair]
	stays  map[pair]struct{}
	counts map[key.Location]v1alpha1.LeftCounts // by location
}

func newUnassigned() unassigned {
	return unassigned{
		pairs: btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}),
		stays: map[pair]struct{}{}, counts: map[key.Location]v1alpha1.LeftCounts{},
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
	now := found && objectstate.Left(o.reportOf(location), false).Stays()
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
