// Package progress counts objects by state, for each Placement and for each location.
//
// It observes every change and keeps one state for each pair of object and location. Counts are
// updated by differences. Once no pair is due for evaluation, they equal a recomputation. The package
// must never read or write the log, and has no goroutine and no clock: the hub calls Work and writes
// the results.
package progress

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/watchdog"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config contains the dependencies of a Tracker.
type Config struct {
	// Digest gives the digests of rendered objects. It is called when changes are counted.
	Digest objectstate.Digest
	// Work records which object is being counted; nil: nothing does.
	Work *watchdog.Work
}

// PlacementCounts sum up one Placement.
type PlacementCounts struct {
	// Incomplete is true while some objects of the space are due for evaluation. Their former states are
	// counted until then. Dirty returns the Placement after their evaluation.
	Incomplete bool
	// Objects counts the objects that the Placement matches, wherever they go.
	Objects int64
	v1alpha1.Counts
	// Errors are the first maxErrors failing pairs in the order of object and location, and
	// if these are fewer, degraded ones.
	Errors []v1alpha1.PlacementError
}

// Dirty lists the Placements, locations and Customizers whose counts may have changed.
type Dirty struct {
	// Rev is the revision up to which changes were applied.
	Rev        int64
	Placements []key.Placement
	Locations  []key.Location
	// Moved are the locations that have come, gone or changed in what decides who selects them and
	// what comes to them, as they were and as they are; properties are left out. A Placement of
	// which Concerned says that it has to do with them is as dirty as those that are named.
	Moved []placement.Site
	// Customizers are those whose rules fail elsewhere, or otherwise, than before.
	Customizers []Customizer
}

// Tracker is safe for concurrent use. It is a table.Observer: Observe only notes changes;
// Work, Object and LeftOf count them. Rendering for it is work that tenants cause, so that each space
// has its turn, and only callers that ask for one object wait for its evaluation.
type Tracker struct {
	config Config
	inbox  inbox

	// working is held by Work.
	working sync.Mutex

	// mu is never held while something is evaluated.
	mu         sync.Mutex
	rev        int64
	objects    map[string]*object // by path
	placements map[key.Placement]*placementTally
	locations  map[key.Location]*locationTally
	// there has what of the Locations that have a row decides who selects them, by name.
	there map[key.Location]selectable
	// spaces has what of the Spaces that have a row decides who reaches them, and who admits
	// them.
	spaces map[key.Space]reachable
	// known are the Placements that have a row.
	known          map[key.Placement]struct{}
	left           lefts
	stale          map[key.Location]struct{} // locations whose reports are stale, see objectstate.IsStale
	dirtyPlacement map[key.Placement]struct{}
	dirtyLocation  map[key.Location]struct{}
	// moved are the locations that have changed for who selects them, see Dirty.
	moved  []placement.Site
	blames blames
	due    schedule
	// load is the number of Resets that have been applied.
	load int
}

var _ table.Observer = (*Tracker)(nil)

// placementTally sums up the pairs of one Placement.
type placementTally struct {
	objects int64
	counts  v1alpha1.Counts
	// at counts the pairs by location.
	at map[key.Location]int64
	// failing are the pairs that failed, degraded those that are applied and degraded, in order.
	failing, degraded btree.BTreeG[pair]
}

// locationTally sums up the pairs of one location.
type locationTally struct{ counts v1alpha1.Counts }

// pair is an object at a location.
type pair struct {
	path     string
	location key.Location
}

func pairLess(a, b pair) bool {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.location, b.location)) < 0
}

// New makes a Tracker that has observed nothing.
func New(config Config) *Tracker {
	t := &Tracker{
		config:         config,
		inbox:          inbox{spaces: map[key.Space]map[string]*table.Row{}},
		dirtyPlacement: map[key.Placement]struct{}{},
		dirtyLocation:  map[key.Location]struct{}{},
	}
	t.clear()
	return t
}

// clear forgets everything; what was known is dirty.
func (t *Tracker) clear() {
	for p := range t.known {
		t.dirtyPlacement[p] = struct{}{}
	}
	for l := range t.locations {
		t.dirtyLocation[l] = struct{}{}
	}
	for l, was := range t.there {
		t.dirtyLocation[l] = struct{}{}
		t.moved = append(t.moved, placement.Site{Name: l, Labels: was.labels})
	}
	for l := range t.left.counts {
		t.dirtyLocation[l] = struct{}{}
	}
	t.objects = map[string]*object{}
	t.placements = map[key.Placement]*placementTally{}
	t.locations = map[key.Location]*locationTally{}
	t.there = map[key.Location]selectable{}
	t.spaces = map[key.Space]reachable{}
	t.stale = map[key.Location]struct{}{}
	t.known = map[key.Placement]struct{}{}
	t.left = newLefts()
	t.blames.clear()
	t.due = newSchedule()
}

// Location returns the counts of a location as of the last Work. It does not set Stale: callers use
// objectstate.IsRowStale with the row of the Location, which may be newer.
func (t *Tracker) Location(l key.Location) v1alpha1.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.locations[l]
	if sum == nil {
		return v1alpha1.Counts{}
	}
	return sum.counts
}

// Dirty names, in order, the Placements and locations whose counts or own rows have changed since it was
// last called, as far as Work has counted; some may be gone. A change of a Space makes those of the space and
// of root dirty. The Placements and Customizers of a space with due pairs are omitted until the pairs are
// evaluated, so that no status shows a part of a change.
func (t *Tracker) Dirty() Dirty {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := Dirty{Rev: t.rev}
	for p := range t.dirtyPlacement {
		if !t.due.isHeld(p.Space) {
			d.Placements = append(d.Placements, p)
			delete(t.dirtyPlacement, p)
		}
	}
	slices.SortFunc(d.Placements, key.Placement.Compare)
	if !t.due.isHeld(key.Root) {
		d.Locations = slices.Sorted(maps.Keys(t.dirtyLocation))
		clear(t.dirtyLocation)
	}
	d.Customizers = t.blames.takeDirty(t.due.isHeld)
	if !t.due.isNew {
		d.Moved, t.moved = t.moved, nil
	}
	return d
}

// add adds n pairs in a state to the counts of the location, of the object and of the
// Placements that assign it there.
func (t *Tracker) add(o *object, as *placement.Membership, location key.Location, s state, n int64) {
	here := t.locations[location]
	if here == nil {
		here = &locationTally{}
		t.locations[location] = here
	}
	s.addTo(&here.counts, n)
	s.addTo(&o.counts, n)
	t.dirtyLocation[location] = struct{}{}
	if here.counts == (v1alpha1.Counts{}) {
		delete(t.locations, location)
	}
	_, stale := t.stale[location]
	for _, source := range as.Sources() {
		if source.Placement == "" || !source.Selects(location) {
			continue
		}
		p := source.Placement.Of(o.id.Space)
		sum := t.placement(p)
		s.addTo(&sum.counts, n)
		if stale {
			sum.counts.Stale += n
		}
		if sum.at[location] += n; sum.at[location] == 0 {
			delete(sum.at, location)
		}
		list := &sum.failing
		if !s.failing() {
			list = &sum.degraded
		}
		if s.told() && n > 0 {
			list.Set(pair{o.path, location})
		} else if s.told() {
			list.Delete(pair{o.path, location})
		}
	}
}

// addRefused adds n pairs of an object and a location that does not admit it to the counts
// of the object and of the Placements that select the location, as failed. They are no
// matter of the location.
func (t *Tracker) addRefused(o *object, as *placement.Membership, location key.Location, n int64) {
	failed.addTo(&o.counts, n)
	for _, source := range as.Sources() {
		if source.Placement == "" || !source.Selects(location) {
			continue
		}
		sum := t.placement(source.Placement.Of(o.id.Space))
		failed.addTo(&sum.counts, n)
		if n > 0 {
			sum.failing.Set(pair{o.path, location})
		} else {
			sum.failing.Delete(pair{o.path, location})
		}
	}
}

// matched adds n objects to the Placements that match one.
func (t *Tracker) matched(o *object, as *placement.Membership, n int64) {
	for _, source := range as.Sources() {
		if source.Placement == "" {
			continue
		}
		p := source.Placement.Of(o.id.Space)
		sum := t.placement(p)
		if sum.objects += n; sum.objects == 0 {
			delete(t.placements, p)
		}
	}
}

// placement is the tally of a Placement, which it marks as dirty.
func (t *Tracker) placement(p key.Placement) *placementTally {
	t.dirtyPlacement[p] = struct{}{}
	sum := t.placements[p]
	if sum == nil {
		pairs := func() btree.BTreeG[pair] { return *btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}) }
		sum = &placementTally{at: map[key.Location]int64{}, failing: pairs(), degraded: pairs()}
		t.placements[p] = sum
	}
	return sum
}
