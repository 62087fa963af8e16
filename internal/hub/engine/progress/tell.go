package progress

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxErrors is how many pairs a Placement shows that fail, or else are degraded.
const maxErrors = 10

// maxLooks is how many are looked at for that: of a kind that is concealed all may be alike.
const maxLooks = 1000

// pageOfErrors is how many pairs are read at a time to describe them.
const pageOfErrors = 32

// Placement gives the counts of a Placement as of the last Work.
func (t *Tracker) Placement(p key.Placement) PlacementCounts {
	t.mu.Lock()
	counts := PlacementCounts{Incomplete: t.due.isHeld(p.Space)}
	if counts.Incomplete {
		t.dirtyPlacement[p] = struct{}{}
	}
	sum := t.placements[p]
	if sum == nil {
		t.mu.Unlock()
		return counts
	}
	counts.Objects, counts.Counts = sum.objects, sum.counts
	t.mu.Unlock()
	most := maxLooks
	add := func(_ listed, e v1alpha1.PlacementError) bool {
		if !slices.Contains(counts.Errors, e) { // of what is concealed there are many alike
			counts.Errors = append(counts.Errors, e)
		}
		return len(counts.Errors) < maxErrors
	}
	failing := list{t, func() *btree.BTreeG[pair] {
		if sum := t.placements[p]; sum != nil {
			return &sum.failing
		}
		return nil
	}}
	failing.describe(p.Space, &most, add)
	if len(counts.Errors) < maxErrors && most > 0 {
		degraded := list{t, func() *btree.BTreeG[pair] {
			if sum := t.placements[p]; sum != nil {
				return &sum.degraded
			}
			return nil
		}}
		degraded.describe(p.Space, &most, add)
	}
	return counts
}

// Customizer gives the first maxErrors pairs that are held for a rule of a Customizer, in
// the order of object and location, as of the last Work.
func (t *Tracker) Customizer(c Customizer) (errs []v1alpha1.CustomizerError) {
	most := maxLooks
	list{t, func() *btree.BTreeG[pair] { return t.blames.by[c] }}.describe(c.Space, &most, func(one listed, entry v1alpha1.PlacementError) bool {
		e := v1alpha1.CustomizerError{
			Object: entry.Object, Location: entry.Location, Rule: int32(one.rule), // #nosec G115 -- it is an index of rules
			Reason: entry.Reason, Message: entry.Message,
		}
		if !slices.Contains(errs, e) { // of what is concealed there are many alike
			errs = append(errs, e)
		}
		return len(errs) < maxErrors
	})
	return errs
}

// concealed and foreign replace the messages of objects whose names only users with the right to list them
// may see: some kinds of this space, and all objects of others. A message of the cluster contains the names.
const (
	concealed = "details are hidden: use orrery status, with the right to list objects of this kind"
	foreign   = "details are hidden: use, with the right to list these objects, orrery status --space "
)

// listed is a pair of a list, with the inputs of its evaluation.
type listed struct {
	pair
	evaluation
	rule int
}

// describe returns the entry of the pair in the status of a policy of a space; ok is false if nothing is
// wrong with it any more.
func (e listed) describe(digest objectstate.Digest, space key.Space) (entry v1alpha1.PlacementError, ok bool) {
	v := objectstate.Refused(e.as.Refusal(e.location))
	if !e.as.RefusedBy(e.location) {
		v = e.status(digest)
	}
	if !v.Failing() && !v.Degraded() {
		return entry, false
	}
	id := e.o.id
	entry = v1alpha1.PlacementError{
		Object: id.Identity.String(), Location: string(e.location), Reason: cmp.Or(v.Reason, string(v.State)), Message: v.Message,
	}
	if v.Degraded() {
		entry.Reason, entry.Message = v1alpha1.ReasonDegraded, v.HealthNote
	}
	switch {
	case id.Space != space:
		entry.Space, entry.Object, entry.Message = string(id.Space), id.Resource.String(), foreign+string(id.Space)
	case id.Concealed():
		entry.Object, entry.Message = id.Resource.String(), concealed
	}
	return entry, true
}

// list is a list of pairs that a Tracker has; pairs is called with its lock, and returns nil if there is none.
type list struct {
	tracker *Tracker
	pairs   func() *btree.BTreeG[pair]
}

// describe calls fn for the entries of a list in the status of a policy of a space, in order, until it returns
// false, and for no more than *most pairs. The pairs are described without the lock.
func (l list) describe(space key.Space, most *int, fn func(listed, v1alpha1.PlacementError) bool) {
	for last := (pair{}); ; {
		page := l.after(last)
		for _, one := range page {
			if entry, ok := one.describe(l.tracker.config.Digest, space); ok && !fn(one, entry) {
				return
			}
			if *most--; *most <= 0 {
				return
			}
			last = one.pair
		}
		if len(page) < pageOfErrors {
			return
		}
	}
}

// after returns the pairs of the list that follow another one, a page at most.
func (l list) after(last pair) (page []listed) {
	t := l.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	pairs := l.pairs()
	if pairs == nil {
		return nil
	}
	pairs.Ascend(last, func(at pair) bool {
		if at != last {
			o := t.objects[at.path]
			page = append(page, listed{at, evaluation{o: o, site: at.location, row: o.row, as: o.as, report: o.reportRow(at.location)}, t.blames.of[at].Rule})
		}
		return len(page) < pageOfErrors
	})
	return page
}
