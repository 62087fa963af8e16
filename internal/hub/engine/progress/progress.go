// Package progress counts objects by state, for each Placement and for each location.
//
// It observes every change and keeps one state for each pair of object and location. Counts are
// updated by differences. Once no pair is due for evaluation, they equal a recomputation. The package
// must never read or write the log, and has no goroutine and no clock: the hub calls Work and writes
// the results.
package progress

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/watchdog"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config contains the dependencies of a Tracker.
type Config struct {
	// Digest returns the digests of rendered objects. It is called when changes are counted.
	Digest objectstate.Digest
	// Work records which object is being counted; it may be nil.
	Work *watchdog.Work
}

// PlacementCounts sum up one Placement.
type PlacementCounts struct {
	// Incomplete is true while changes of the Placement's last edit are not applied, or some objects of the space
	// are due for evaluation. Their former states are counted until then. Dirty returns the Placement after their
	// evaluation. Incomplete is false in a space that has had due objects for maxRounds rounds: there, due pairs
	// count as assigned, and are in no state.
	Incomplete bool
	// UID and Generation are those of the Placement that is counted. The one in the table may be newer.
	UID        string
	Generation int64
	// Objects counts the objects that the Placement matches, wherever they go.
	Objects int64
	v1alpha1.Counts
	// Left counts objects at locations that they are not assigned to: those that the Placement matches, and those
	// that it had assigned there.
	Left v1alpha1.LeftCounts
	// IsLeftUnknown is true while locations report objects of the space that are not assigned to them, and the hub
	// does not know which Placement had assigned them.
	IsLeftUnknown bool
	// Errors are the first maxErrors failing pairs in the order of object and location, and
	// if these are fewer, degraded ones.
	Errors []v1alpha1.PlacementError
}

// Dirty lists the Placements, locations, Customizers and KindRules whose counts may have changed.
type Dirty struct {
	// Rev is the revision up to which changes were applied.
	Rev        int64
	Placements []key.Placement
	Locations  []key.Location
	// Moved are the locations that were created, deleted or changed in the fields that decide which
	// policies select them and which objects they admit, with their former and present labels, without
	// properties. A Placement that concerns them by placement.Concerned is dirty, too.
	Moved []placement.Site
	// Ruling are the Customizers and KindRules whose rules fail elsewhere, or otherwise, than before.
	Ruling []key.Object
}

// Tracker is safe for concurrent use. It is a table.Observer: Observe only records changes;
// Work, Object and Unassigned count them. Tenants cause evaluations, which render objects. So each space
// has its turn, and only callers of Object wait for evaluations, those of one object.
type Tracker struct {
	config Config
	inbox  inbox

	// working is held by Work. lastApplied is the space whose changes it has applied last.
	working     sync.Mutex
	lastApplied key.Space

	// mu is never held during an evaluation.
	mu          sync.Mutex
	rev         int64
	objects     map[string]*object // by path
	totals      totals
	policies    policyIndex
	unassigned  unassigned
	failedRules failedRules
	due         schedule
	// resets is the number of Resets that have been applied.
	resets int
}

var _ table.Observer = (*Tracker)(nil)

// New makes a Tracker that has observed nothing.
func New(config Config) *Tracker {
	t := &Tracker{config: config, inbox: inbox{spaces: map[key.Space]*changedRows{}}}
	t.clear()
	return t
}

// clear forgets everything. All known Placements and locations are dirty.
func (t *Tracker) clear() {
	t.totals.clear()
	t.policies.clear(&t.totals)
	for l := range t.unassigned.counts {
		t.totals.dirtyLocations[l] = struct{}{}
	}
	t.objects = map[string]*object{}
	t.unassigned = newUnassigned()
	t.failedRules.clear()
	t.due = newSchedule()
}

// Location returns the counts of a location as of the last Work. It does not set Stale: callers use
// objectstate.IsRowStale with the row of the Location, which may be newer.
func (t *Tracker) Location(l key.Location) v1alpha1.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.totals.locations[l]
	if sum == nil {
		return v1alpha1.Counts{}
	}
	return *sum
}

// Dirty names, in order, the Placements and locations whose counts or own rows have changed since it was
// last called, as far as Work has counted; some may be gone. A change of a Space makes those of the space and
// of root dirty. The Placements, Customizers and KindRules of a space with due pairs are omitted until the pairs are
// evaluated, so that no status shows a part of a change. In a space that always has due pairs, they are
// omitted for maxRounds rounds, and then named once in each round.
func (t *Tracker) Dirty() Dirty {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := Dirty{Rev: t.rev}
	isRootOmitted := t.due.isOmitted(key.Root)
	isOmitted := func(s key.Space) bool { return s == key.Root && isRootOmitted || s != key.Root && t.due.isOmitted(s) }
	for p := range t.totals.dirtyPlacements {
		if !isOmitted(p.Space) && isApplied(t, p) {
			d.Placements = append(d.Placements, p)
			delete(t.totals.dirtyPlacements, p)
		}
	}
	slices.SortFunc(d.Placements, key.Placement.Compare)
	if !isRootOmitted {
		d.Locations = slices.Sorted(maps.Keys(t.totals.dirtyLocations))
		clear(t.totals.dirtyLocations)
	}
	d.Ruling = t.failedRules.takeDirty(isOmitted)
	if !t.due.isNew {
		d.Moved, t.policies.moved = t.policies.moved, nil
	}
	t.due.shown()
	return d
}

// isApplied reports whether all changes up to the last edit of a Placement were applied, in the spaces that it may
// select. The caller holds the lock.
func isApplied(t *Tracker, p key.Placement) bool {
	applied := t.rev
	if p.Space != key.Root {
		applied = t.inbox.appliedOf(p.Space)
	}
	return t.policies.known[p.Space][p].rev <= applied
}

// UnassignedAt counts the objects that a location reports though they are not assigned to it,
// as of the last Work.
func (t *Tracker) UnassignedAt(l key.Location) v1alpha1.LeftCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unassigned.counts[l]
}

// Unassigned is one object at one location that it is not assigned to.
type Unassigned struct {
	// Path is that of the object: SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Path     string
	Location key.Location
}

// Unassigned returns the objects whose path begins with prefix that locations report though they are not
// assigned to them, or whose removal they have not confirmed. They are in the order of paths and locations, as
// of all observed changes. prefix begins with the name of a space and a slash. The error is that of the context.
func (t *Tracker) Unassigned(ctx context.Context, prefix string) (all []Unassigned, err error) {
	s, _, _ := strings.Cut(prefix, "/")
	if err := t.apply(ctx, key.Space(s)); err != nil {
		return nil, err
	}
	t.mu.Lock()
	pairs := t.unassigned.pairs.Copy() // read without the lock
	t.mu.Unlock()
	pairs.Ascend(pair{path: prefix}, func(p pair) bool {
		if !strings.HasPrefix(p.path, prefix) {
			return false
		}
		all = append(all, Unassigned{p.path, p.location})
		err = ctx.Err()
		return err == nil
	})
	return all, err
}
