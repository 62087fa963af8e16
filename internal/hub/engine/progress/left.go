package progress

import (
	"strings"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// lefts holds the pairs that a location reports without assignment, or whose removal the location has not
// confirmed: objects that are being removed, and objects that stay. Tracker.mu guards it.
type lefts struct {
	pairs  btree.BTreeG[pair]
	stays  map[pair]struct{}
	counts map[key.Location]v1alpha1.LeftCounts // by location
}

func newLefts() lefts {
	return lefts{
		pairs: *btree.NewBTreeGOptions(pairLess, btree.Options{NoLocks: true}),
		stays: map[pair]struct{}{}, counts: map[key.Location]v1alpha1.LeftCounts{},
	}
}

// isLeft reports whether a location reports an object that is not assigned to it, or has yet
// to confirm that it is gone.
func (o *object) isLeft(location key.Location) bool {
	report := o.reportOf(location)
	switch {
	case o.leaves != nil && o.leaves.Has(location):
		return !objectstate.Removed(report, o.uid)
	case report == nil, o.as != nil && o.as.Has(location):
		return false
	}
	return !objectstate.Removed(report, "")
}

// noteLeft updates whether an object is left at a location.
func (t *Tracker) noteLeft(o *object, location key.Location) {
	p := pair{o.path, location}
	found := o.isLeft(location)
	_, was := t.left.pairs.Get(p)
	_, stayed := t.left.stays[p]
	now := found && objectstate.Left(o.reportOf(location), false).Stays()
	if was == found && stayed == now {
		return
	}
	t.dirtyLocation[location] = struct{}{}
	c := t.left.counts[location]
	switch { // as it was counted before
	case stayed:
		c.Leftovers--
		delete(t.left.stays, p)
	case was:
		c.Leaving--
	}
	switch {
	case now:
		c.Leftovers++
		t.left.stays[p] = struct{}{}
	case found:
		c.Leaving++
	}
	if found {
		t.left.pairs.Set(p)
	} else {
		t.left.pairs.Delete(p)
	}
	if t.left.counts[location] = c; c == (v1alpha1.LeftCounts{}) {
		delete(t.left.counts, location)
	}
}

// LeftAt counts the objects that a location reports though they are not assigned to it,
// as of the last Work.
func (t *Tracker) LeftAt(l key.Location) v1alpha1.LeftCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left.counts[l]
}

// Left is one object at one location that it is not assigned to.
type Left struct {
	// Path is that of the object: SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Path     string
	Location key.Location
}

// LeftOf are the objects whose path begins with below that locations report though they
// are not assigned to them, or have yet to confirm to be gone, in order of paths and locations, as of all that was observed.
// below begins with the name of a space and a slash.
func (t *Tracker) LeftOf(below string) []Left {
	s, _, _ := strings.Cut(below, "/")
	t.apply(key.Space(s))
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Left
	t.left.pairs.Ascend(pair{path: below}, func(p pair) bool {
		if len(p.path) < len(below) || p.path[:len(below)] != below {
			return false
		}
		all = append(all, Left{p.path, p.location})
		return true
	})
	return all
}
