package progress

import (
	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// totals sums up the states of pairs by Placement and by location. Tracker.mu guards it.
type totals struct {
	placements map[key.Placement]*placementTotal
	locations  map[key.Location]*v1alpha1.Counts
	// stale has the locations whose reports are stale, see objectstate.IsStale.
	stale map[key.Location]struct{}
	// dirtyPlacements and dirtyLocations are those whose counts may have changed since the last Dirty.
	dirtyPlacements map[key.Placement]struct{}
	dirtyLocations  map[key.Location]struct{}
}

// placementTotal sums up the pairs of one Placement.
type placementTotal struct {
	objects int64
	counts  v1alpha1.Counts
	// due counts, by their former states, the pairs that are due.
	due v1alpha1.Counts
	// left counts unassigned pairs, see leftShare.
	left v1alpha1.LeftCounts
	// byLocation is the number of pairs at each location.
	byLocation map[key.Location]int64
	// failing are the failed pairs, degraded those that are applied and degraded, in order.
	failing, degraded btree.BTreeG[pair]
}

// clear forgets all totals.
func (t *totals) clear() {
	if t.dirtyPlacements == nil {
		t.dirtyPlacements, t.dirtyLocations = map[key.Placement]struct{}{}, map[key.Location]struct{}{}
	}
	for l := range t.locations {
		t.dirtyLocations[l] = struct{}{}
	}
	t.placements = map[key.Placement]*placementTotal{}
	t.locations = map[key.Location]*v1alpha1.Counts{}
	t.stale = map[key.Location]struct{}{}
}

// placement returns the total of a Placement, which it marks as dirty.
func (t *totals) placement(p key.Placement) *placementTotal {
	t.dirtyPlacements[p] = struct{}{}
	sum := t.placements[p]
	if sum == nil {
		pairs := func() btree.BTreeG[pair] { return *btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}) }
		sum = &placementTotal{byLocation: map[key.Location]int64{}, failing: pairs(), degraded: pairs()}
		t.placements[p] = sum
	}
	return sum
}

// add adds n pairs in a state to the counts of the location, of the object and of the
// Placements that assign it there.
func (t *totals) add(o *object, as *placement.Membership, location key.Location, s state, n int64) {
	here := t.locations[location]
	if here == nil {
		here = &v1alpha1.Counts{}
		t.locations[location] = here
	}
	s.addTo(here, n)
	s.addTo(&o.counts, n)
	t.dirtyLocations[location] = struct{}{}
	if *here == (v1alpha1.Counts{}) {
		delete(t.locations, location)
	}
	_, stale := t.stale[location]
	for _, source := range as.Sources() {
		if source.Placement == "" || !source.Selects(location) {
			continue
		}
		sum := t.placement(source.Placement.Resolve(o.id.Space))
		s.addTo(&sum.counts, n)
		if stale {
			sum.counts.Stale += n
		}
		if sum.byLocation[location] += n; sum.byLocation[location] == 0 {
			delete(sum.byLocation, location)
		}
		list := &sum.failing
		if !s.failing() {
			list = &sum.degraded
		}
		if s.isListed() && n > 0 {
			list.Set(pair{o.path, location})
		} else if s.isListed() {
			list.Delete(pair{o.path, location})
		}
	}
}

// addRefused adds n pairs of an object and a location that does not admit it to the counts
// of the object and of the Placements that select the location, as failed. The counts of the location
// do not include them.
func (t *totals) addRefused(o *object, as *placement.Membership, location key.Location, n int64) {
	failed.addTo(&o.counts, n)
	for _, source := range as.Sources() {
		if source.Placement == "" || !source.Selects(location) {
			continue
		}
		sum := t.placement(source.Placement.Resolve(o.id.Space))
		failed.addTo(&sum.counts, n)
		if n > 0 {
			sum.failing.Set(pair{o.path, location})
		} else {
			sum.failing.Delete(pair{o.path, location})
		}
	}
}

// addObject adds n objects to the Placements that match an object.
func (t *totals) addObject(o *object, as *placement.Membership, n int64) {
	for _, source := range as.Sources() {
		if source.Placement == "" {
			continue
		}
		p := source.Placement.Resolve(o.id.Space)
		sum := t.placement(p)
		sum.objects += n
		t.drop(p, sum)
	}
}

// addLeft adds the share of an unassigned pair n times to the counts of its Placements.
func (t *totals) addLeft(share leftShare, n int64) {
	for _, p := range share.placements {
		sum := t.placement(p)
		sum.left.Leaving += n * share.counts.Leaving
		sum.left.Leftovers += n * share.counts.Leftovers
		t.drop(p, sum)
	}
}

// drop forgets the total of a Placement without pairs.
func (t *totals) drop(p key.Placement, sum *placementTotal) {
	if sum.objects == 0 && sum.left == (v1alpha1.LeftCounts{}) {
		delete(t.placements, p)
	}
}

// addDue adds n pairs for each of some members of an object to the due pairs of the Placements that assign the
// object there. What they show does not change, so none gets dirty.
func (t *totals) addDue(o *object, some members, n int64) {
	if o.as == nil || len(some) == 0 {
		return
	}
	locations := o.as.Members()
	for _, source := range o.as.Sources() {
		if source.Placement == "" {
			continue
		}
		sum := t.placements[source.Placement.Resolve(o.id.Space)]
		if sum == nil {
			continue
		}
		for i := range some.all() {
			if source.Selects(locations[i]) {
				o.states[i].addTo(&sum.due, n)
			}
		}
	}
}

// addMemberDue is addDue for one member.
func (t *totals) addMemberDue(o *object, member int, n int64) {
	location := o.as.Members()[member]
	for _, source := range o.as.Sources() {
		if source.Placement == "" || !source.Selects(location) {
			continue
		}
		if sum := t.placements[source.Placement.Resolve(o.id.Space)]; sum != nil {
			o.states[member].addTo(&sum.due, n)
		}
	}
}

// setStale records whether the reports of a location are stale, and updates the counts of stale pairs.
func (t *totals) setStale(location key.Location, stale bool) {
	if _, before := t.stale[location]; before == stale {
		return
	}
	if stale {
		t.stale[location] = struct{}{}
	} else {
		delete(t.stale, location)
	}
	for p, sum := range t.placements {
		n := sum.byLocation[location]
		if n == 0 {
			continue
		}
		if !stale {
			n = -n
		}
		sum.counts.Stale += n
		t.dirtyPlacements[p] = struct{}{}
	}
}

// known returns the counts of a Placement of which due pairs are in no state: these are only assigned.
func (s *placementTotal) known() v1alpha1.Counts { return without(s.counts, s.due) }

// without returns counts without the states of due pairs, which stay assigned.
func without(counts, due v1alpha1.Counts) v1alpha1.Counts {
	counts.Applied -= due.Applied
	counts.Mutated -= due.Mutated
	counts.Healthy -= due.Healthy
	counts.Failed -= due.Failed
	counts.Held -= due.Held
	return counts
}
