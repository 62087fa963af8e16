package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

// Signal is an observer of the table that wakes one loop. The loop reads the table for changes.
type Signal struct{ retry.Signal }

// NewSignal returns a Signal that is not raised.
func NewSignal() Signal { return Signal{retry.NewSignal()} }

// Reset wakes the loop.
func (s Signal) Reset() { s.Raise() }

// Observe wakes the loop.
func (s Signal) Observe(int64, []table.Change) { s.Raise() }

// policies writes the status of Placements and Customizers once counts have settled, or after
// several settling times if they do not, so that a burst of reports causes one write. Changes of
// Customizers are reconciled at once.
func (c *Controllers) policies() *controller {
	reconcile := func(ctx context.Context, k string) error {
		if o, err := key.ParseObject(k); err == nil && o.Resource == key.Customizers {
			return c.reconcileCustomizer(ctx, k)
		}
		return c.reconcilePlacement(ctx, k)
	}
	return c.controller("policies", reconcile, c.watchCounts,
		c.follow(source{resourceTopics(key.Customizers), inAllSpaces(key.Customizers), byKey}))
}

// Count updates the progress of Placements and locations until the context ends. Each hub runs it,
// whether or not it is elected to write the counts.
func (c *Controllers) Count(ctx context.Context) error {
	for more := false; ; {
		if more { // what was counted is shown, however much some spaces have to count
			if err := ctx.Err(); err != nil {
				return err
			}
		} else {
			select {
			case <-c.config.Changed.Signal:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.awaitSettled(ctx); err != nil {
				return err
			}
		}
		began := c.config.Now()
		for more = c.config.Progress.Work(); more && c.config.Now().Sub(began) < c.config.Settling && ctx.Err() == nil; {
			more = c.config.Progress.Work()
		}
		dirty := c.config.Progress.Dirty()
		c.config.Computed.Update(dirty.Locations)
		keys := c.resolved.forget(c.config.Table.Snapshot(), dirty)
		for _, cz := range dirty.Customizers {
			keys = append(keys, key.Object{Space: cz.Space, Identity: key.Identity{Resource: key.Customizers, Name: cz.Name}}.Key())
		}
		for _, p := range slices.Concat(dirty.Placements, c.config.Unreturned.Dirty(), c.config.Pruned.Dirty(), c.config.Releases.Dirty()) {
			keys = append(keys, p.Object().Key())
		}
		c.counts.add(keys)
	}
}

// counts collects the policies whose counts may have changed since the last write. It is safe for
// concurrent use.
type counts struct {
	mu  sync.Mutex
	all map[string]struct{}
	// wake receives when the collection is not empty.
	wake chan struct{}
}

func newCounts() *counts { return &counts{all: map[string]struct{}{}, wake: make(chan struct{}, 1)} }

func (n *counts) add(keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range keys {
		n.all[k] = struct{}{}
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *counts) take() (keys []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys = slices.Collect(maps.Keys(n.all))
	clear(n.all)
	return keys
}

// watchCounts is the watch of policies whose counts may have changed. A new run enqueues all
// policies if an earlier run has taken keys, which it may not have reconciled. It waits for the
// first count, since there is nothing to write before.
func (c *Controllers) watchCounts(ctx context.Context, enqueue func([]string)) error {
	for first := true; ; first = false {
		select {
		case <-c.counts.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		if first && c.countsTaken {
			for _, r := range []key.Resource{key.Placements, key.Customizers} {
				inAllSpaces(r)(c.config.Table.Snapshot(), func(row *table.Row) bool {
					enqueue([]string{row.Key})
					return true
				})
			}
		}
		c.countsTaken = true
		enqueue(c.counts.take())
	}
}

// awaitSettled waits until nothing has changed for a settling time, at most maxSettle settling
// times.
func (c *Controllers) awaitSettled(ctx context.Context) error {
	const maxSettle = 5
	timer := time.NewTimer(c.config.Settling)
	defer timer.Stop()
	for range maxSettle {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-c.config.Changed.Signal:
			timer.Reset(c.config.Settling)
		default:
			return nil
		}
	}
	return nil
}

func (c *Controllers) reconcilePlacement(ctx context.Context, k string) error {
	o, err := key.ParseObject(k)
	if err != nil {
		return err
	}
	p := key.Placement{Space: o.Space, Name: o.Name}
	resolved, row := c.resolved.get(c.config.Table, p)
	if row == nil || !c.exists(p.Space) {
		return nil
	}
	counts, partial, missed := c.config.Progress.Placement(p), c.config.Releases.Parts(p, p.Space), c.config.Unreturned.Of(p, p.Space)
	if counts.Incomplete { // they would stand beside the new generation; Count enqueues it again
		return nil
	}
	return c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var pl v1alpha1.Placement
		if err := json.Unmarshal(object, &pl); err != nil {
			return nil, fmt.Errorf("decode placement %q: %w", p.Name, err)
		}
		st := &pl.Status
		st.ObservedGeneration = row.Meta.Generation
		st.Spaces, st.Locations = int64(resolved.Spaces), int64(resolved.locations)
		st.Objects, st.Counts, st.Errors = counts.Objects, counts.Counts, counts.Errors
		c.condition(&st.Conditions, row, accepted(resolved.Problems, "every selector and test can be used"))
		st.Prune, st.Confirmed = c.config.Pruned.Status(p, row.Annotation(v1alpha1.ConfirmPruneAnnotation), st.Confirmed)
		c.condition(&st.Conditions, row, waiting(p.Name, st.Prune, objectstate.SyncedPlacement(counts.Counts)))
		if len(resolved.Unknown) > 0 {
			c.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionLocationsKnown, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoSuchLocation,
				Message: "no location has the name " + strings.Join(resolved.Unknown, ", "),
			})
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionLocationsKnown)
		}
		if condition, hasUpsync := unasked(&st.Conditions, p.Space, resolved.Status); hasUpsync {
			c.condition(&st.Conditions, row, condition)
		}
		if len(partial) > 0 {
			c.condition(&st.Conditions, row, partOf(partial))
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionWholeReleases)
		}
		if missed.Count > 0 {
			c.condition(&st.Conditions, row, missed.Condition())
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStatusReturned)
		}
		return pl.Status, nil
	})
}

// condition sets a condition with the given Status, Reason and Message.
func (c *Controllers) condition(all *[]metav1.Condition, row *table.Row, is metav1.Condition) {
	is.ObservedGeneration = row.Meta.Generation
	is.LastTransitionTime = metav1.NewTime(c.config.Now())
	meta.SetStatusCondition(all, is)
}

// accepted returns the condition Accepted of a policy with problems; sound is the message if there
// are none.
func accepted(problems []string, sound string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: sound}
	if len(problems) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", strings.Join(problems, "; ")
	}
	return c
}

// waiting returns the condition Synced of a Placement: that removals are pending, or else the given
// condition.
func waiting(name string, w *v1alpha1.WaitingPrune, otherwise metav1.Condition) metav1.Condition {
	if w == nil {
		return otherwise
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPruneGuard, Message: prune.Explain(w, name),
	}
}

// partOf returns the condition of a Placement that matches Helm releases only in part. Other
// Placements do not have it.
func partOf(partial []helm.Part) metav1.Condition {
	var all []string
	for _, p := range partial {
		all = append(all, p.String())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionWholeReleases, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartOfHelmRelease, Message: strings.Join(all, "; "),
	}
}
