package progress

import (
	"context"
	"strings"

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
	case o.leaves != nil && o.leaves.Has(location):
		return !objectstate.Removed(report, o.uid)
	case report == nil, o.as != nil && o.as.Has(location):
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
