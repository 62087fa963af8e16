package progress

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxErrors is the number of failing, or else degraded, pairs that a Placement lists.
const maxErrors = 10

// maxDescribed is the number of pairs that are described for that: those of a concealed kind may be alike.
const maxDescribed = 1000

// pageOfErrors is how many pairs are read at a time to describe them.
const pageOfErrors = 32

// Placement returns the counts of a Placement as of the last Work. The errors are described until the context
// ends.
func (t *Tracker) Placement(ctx context.Context, p key.Placement) PlacementCounts {
	counts := t.placementCounts(p)
	if counts.Assigned == 0 {
		return counts
	}
	most := maxDescribed
	add := func(_ listed, e v1alpha1.PlacementError) bool {
		if !slices.Contains(counts.Errors, e) { // concealed pairs are often alike
			counts.Errors = append(counts.Errors, e)
		}
		return len(counts.Errors) < maxErrors
	}
	failing := list{t, func() *btree.BTreeG[pair] {
		if sum := t.totals.placements[p]; sum != nil {
			return &sum.failing
		}
		return nil
	}}
	failing.describe(ctx, p.Space, &most, add)
	if len(counts.Errors) < maxErrors && most > 0 {
		degraded := list{t, func() *btree.BTreeG[pair] {
			if sum := t.totals.placements[p]; sum != nil {
				return &sum.degraded
			}
			return nil
		}}
		degraded.describe(ctx, p.Space, &most, add)
	}
	return counts
}

// placementCounts returns the counts of a Placement without its errors.
func (t *Tracker) placementCounts(p key.Placement) PlacementCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := PlacementCounts{
		Incomplete: t.due.isWithheld(p.Space) || !isApplied(t, p), UID: t.policies.known[p.Space][p].uid, Generation: t.policies.known[p.Space][p].generation,
	}
	isOverdue := !counts.Incomplete && t.due.hasDue(p.Space)
	if counts.Incomplete || isOverdue {
		t.totals.dirtyPlacements[p] = struct{}{}
	}
	_, counts.IsLeftUnknown = t.unassigned.unknown[p.Space]
	sum := t.totals.placements[p]
	if sum == nil {
		return counts
	}
	counts.Objects, counts.Counts, counts.Left = sum.objects, sum.counts, sum.left
	if isOverdue {
		counts.Counts = sum.known()
	}
	return counts
}

// UpsyncCounts counts some locations by their state as of the last Work. Dirty returns the Placements that only have
// upsync when it may have changed.
func UpsyncCounts(t *Tracker, locations []key.Location) (c objectstate.UpsyncCounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range locations {
		c[t.policies.upsyncs[l]]++
	}
	return c
}

// AreRulesCounted reports whether a Tracker has evaluated all changes up to a revision, such as that of the
// row of a Customizer or KindRules. Pairs that have become due by later changes do not matter in a space that
// always has due pairs. If not, its errors may be those of former rules, and Dirty returns it again.
func AreRulesCounted(t *Tracker, o key.Object, rev int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rev >= rev && !t.due.isWithheld(o.Space) && t.due.isEvaluated(o.Space, rev) {
		return true
	}
	t.failedRules.dirty[o] = struct{}{}
	return false
}

// Customizer returns the first maxErrors pairs that are held for a rule of a Customizer, in
// the order of object and location, as of the last Work. They are described until the context ends.
func (t *Tracker) Customizer(ctx context.Context, o key.Object) []v1alpha1.CustomizerError {
	return failures(ctx, t, o, func(rule int, entry v1alpha1.PlacementError) v1alpha1.CustomizerError {
		return v1alpha1.CustomizerError{
			Object: entry.Object, Location: entry.Location, Rule: int32(rule), // #nosec G115 -- it is an index of rules
			Reason: entry.Reason, Message: entry.Message,
		}
	})
}

// ErrorsOfKindRules returns the first maxErrors pairs for which an expression of a KindRules fails, like
// Tracker.Customizer.
func ErrorsOfKindRules(ctx context.Context, t *Tracker, o key.Object) []v1alpha1.KindRulesError {
	return failures(ctx, t, o, func(_ int, entry v1alpha1.PlacementError) v1alpha1.KindRulesError {
		return v1alpha1.KindRulesError{Object: entry.Object, Location: entry.Location, Message: entry.Message}
	})
}

// failures returns the first maxErrors pairs for which a rule of a Customizer or KindRules fails, as errors.
func failures[E comparable](ctx context.Context, t *Tracker, o key.Object, errorOf func(rule int, entry v1alpha1.PlacementError) E) (errs []E) {
	most := maxDescribed
	list{t, func() *btree.BTreeG[pair] { return t.failedRules.pairs[o] }}.describe(ctx, o.Space, &most, func(one listed, entry v1alpha1.PlacementError) bool {
		e := errorOf(one.rule, entry)
		if !slices.Contains(errs, e) { // concealed pairs are often alike
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
	rulesFail := v.FailedRule.KindRules.Name != ""
	if !v.Failing() && !v.Degraded() && !rulesFail {
		return entry, false
	}
	id := e.o.id
	entry = v1alpha1.PlacementError{
		Object: id.Identity.String(), Location: string(e.location), Reason: cmp.Or(v.Reason, string(v.State)), Message: v.Message,
	}
	switch {
	case v.Degraded():
		entry.Reason, entry.Message = v1alpha1.ReasonDegraded, v.HealthNote
	case rulesFail:
		entry.Reason, entry.Message = v1alpha1.ReasonRuleFailed, v.HealthNote
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
// false or the context ends, and for no more than *most pairs. The pairs are described without the lock.
func (l list) describe(ctx context.Context, space key.Space, most *int, fn func(listed, v1alpha1.PlacementError) bool) {
	for last := (pair{}); ; {
		page := l.after(last)
		for _, one := range page {
			if ctx.Err() != nil {
				return
			}
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
	pairs.Ascend(last, func(p pair) bool {
		if p != last {
			o := t.objects[p.path]
			page = append(page, listed{p, evaluation{o: o, site: p.location, row: o.row, as: o.as, report: o.reportRow(p.location)}, t.failedRules.rules[p].Rule})
		}
		return len(page) < pageOfErrors
	})
	return page
}
