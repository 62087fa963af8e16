package progress

import (
	"slices"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
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
	// shares are the shares of the pairs that have one.
	shares map[pair]leftShare
	// formers are the Placements that had assigned a pair, if a Tracker has observed how its assignment ended.
	formers map[pair][]key.Placement
	// unknown is the number of pairs of each space whose former Placements are unknown.
	unknown map[key.Space]int64
}

func newUnassigned() unassigned {
	return unassigned{
		pairs: btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}),
		stays: map[pair]struct{}{}, released: map[pair]struct{}{}, counts: map[key.Location]v1alpha1.LeftCounts{},
		shares: map[pair]leftShare{}, formers: map[pair][]key.Placement{}, unknown: map[key.Space]int64{},
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
	if !found {
		delete(u.formers, p)
	}
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

// leftShare is the share of an unassigned pair in the counts of Placements.
type leftShare struct {
	// placements are the Placements that match the object, and those that had assigned it to the location, in order.
	// An agent that is away does not report which Placement had assigned it.
	placements []key.Placement
	counts     v1alpha1.LeftCounts
	// isUnknown is true if the hub does not know which Placement had assigned the object to the location.
	isUnknown bool
}

func (s leftShare) equal(o leftShare) bool {
	return s.counts == o.counts && s.isUnknown == o.isUnknown && slices.Equal(s.placements, o.placements)
}

// recordFormers records the Placements that have assigned an object to the locations that have ended to be members,
// if these have reported it. previous is a former Membership, or nil.
func (u *unassigned) recordFormers(o *object, previous *placement.Membership) {
	if previous == nil {
		return
	}
	for _, r := range o.reports {
		if l := locationOf(r); previous.Contains(l) && (o.as == nil || !o.as.Contains(l)) {
			u.formers[pair{o.path, l}] = placementsOf(o.id.Space, previous, func(s placement.Source) bool { return s.Selects(l) })
		}
	}
}

// placementsOf returns those Placements of a Membership of a space that isSource accepts.
func placementsOf(space key.Space, as *placement.Membership, isSource func(placement.Source) bool) (all []key.Placement) {
	for _, source := range as.Sources() {
		if source.Placement != "" && isSource(source) {
			all = append(all, source.Placement.Resolve(space))
		}
	}
	return all
}

// replaceShare updates the share of a pair, and returns it as it was before and after.
func (u *unassigned) replaceShare(o *object, location key.Location) (before, after leftShare) {
	p := pair{o.path, location}
	before, after = u.shares[p], u.shareOf(o, location)
	switch {
	case before.equal(after):
		return leftShare{}, leftShare{}
	case after.equal(leftShare{}):
		delete(u.shares, p)
	default:
		u.shares[p] = after
	}
	return before, after
}

func (u *unassigned) shareOf(o *object, location key.Location) (s leftShare) {
	p := pair{o.path, location}
	if s.counts = u.countOf(p); s.counts == (v1alpha1.LeftCounts{}) {
		return s
	}
	former, isKnown := u.formers[p]
	s.placements = slices.Clone(former)
	for _, as := range []*placement.Membership{o.as, o.leaves} {
		if as != nil {
			s.placements = append(s.placements, placementsOf(o.id.Space, as, func(placement.Source) bool { return true })...)
		}
	}
	cause, letGoBy := objectstate.LetGo(o.reportOf(location))
	switch {
	case letGoBy.Binds(o.id.Space): // an agent may name Placements of any space
	case letGoBy != "":
		s.placements, isKnown = append(s.placements, letGoBy.Resolve(o.id.Space)), true
	case cause != "" && cause != wire.Walked: // an annotation had assigned it
		isKnown = true
	}
	slices.SortFunc(s.placements, key.Placement.Compare)
	s.placements = slices.Compact(s.placements)
	isKnown = isKnown || o.leaves != nil && o.leaves.Contains(location)
	s.isUnknown = s.counts.Leaving > 0 && !isKnown
	return s
}

// countUnknown counts a pair of a space whose former Placements are unknown, or no longer are. It reports whether
// the space has its first such pair, or has no other one.
func (u *unassigned) countUnknown(s key.Space, isUnknown bool) (isChanged bool) {
	if isUnknown {
		u.unknown[s]++
		return u.unknown[s] == 1
	}
	if u.unknown[s]--; u.unknown[s] == 0 {
		delete(u.unknown, s)
		return true
	}
	return false
}
