package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/prune"
	"orrery.dev/orrery/internal/release"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/tally"
)

// signal is an observer that wakes a loop; what happened is asked elsewhere.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// Reset wakes the loop.
func (s signal) Reset() { s.raise() }

// Observe wakes the loop.
func (s signal) Observe(int64, []table.Change) { s.raise() }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// placementLoop writes the counts of placements, once they have been quiet or
// at the latest every few settling times, so that a burst of reports costs one
// write.
func (h *Hub) placementLoop(ctx context.Context) error {
	again := map[tally.Placement]struct{}{}
	for {
		var retry <-chan time.Time
		if len(again) > 0 {
			retry = time.After(later)
		}
		select {
		case <-h.changed:
		case <-retry:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := h.settle(ctx); err != nil {
			return err
		}
		dirty := h.tally.Dirty()
		h.noteSynced(dirty.Locations)
		for _, p := range dirty.Placements {
			again[p] = struct{}{}
		}
		for _, p := range h.pruned.Dirty() {
			again[tally.Placement(p)] = struct{}{}
		}
		for _, p := range h.releases.Dirty() {
			again[tally.Placement(p)] = struct{}{}
		}
		for _, p := range h.leftOut.takeDirty() {
			again[p] = struct{}{}
		}
		for p := range again {
			err := h.writePlacementStatus(ctx, p)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				delete(again, p)
			} else if !errors.Is(err, errAgain) {
				h.config.Logger.Warn("write a placement's status", "space", p.Space, "placement", p.Name, "error", err)
			}
		}
	}
}

// settle waits until nothing has changed for the settling time, but no longer
// than maxSettle of them.
func (h *Hub) settle(ctx context.Context) error {
	const maxSettle = 5
	for range maxSettle {
		timer := time.NewTimer(h.config.Settle)
		select {
		case <-timer.C:
			return nil
		case <-h.changed:
			timer.Stop()
			select {
			case <-time.After(h.config.Settle):
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return nil
}

func placementKey(p tally.Placement) string {
	return key.Object{Space: p.Space, Identity: key.Identity{Resource: key.Placements, Name: p.Name}}.Key()
}

func (h *Hub) writePlacementStatus(ctx context.Context, p tally.Placement) error {
	snapshot := h.table.Snapshot()
	row := snapshot.Get(placementKey(p))
	resolved, ok := placement.StatusOf(snapshot, p.Space, p.Name)
	if row == nil || !ok || !h.spaceExists(p.Space) {
		return nil
	}
	counts, parts, missed := h.tally.Placement(p), h.releases.Parts(release.Placement(p)), h.leftOut.of(p)
	return h.updateStatus(ctx, row, func(object []byte) (any, error) {
		var pl v1alpha1.Placement
		if err := json.Unmarshal(object, &pl); err != nil {
			return nil, fmt.Errorf("decode placement %q: %w", p.Name, err)
		}
		st := &pl.Status
		st.ObservedGeneration = row.Meta.Generation
		st.Locations = int64(len(resolved.Locations))
		st.Objects, st.Counts, st.Errors = counts.Objects, counts.Counts, counts.Errors
		h.condition(&st.Conditions, row, accepted(resolved.Problems, "every selector and test can be used"))
		st.Prune, st.Confirmed = h.pruned.Status(prune.Placement(p), row.Annotation(v1alpha1.ConfirmPruneAnnotation), st.Confirmed)
		h.condition(&st.Conditions, row, waiting(p.Name, st.Prune, synced(counts.Counts)))
		if len(parts) > 0 {
			h.condition(&st.Conditions, row, partOf(parts))
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionWholeReleases)
		}
		if missed.count > 0 {
			h.condition(&st.Conditions, row, missed.condition())
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStatusReturned)
		}
		return pl.Status, nil
	})
}

// condition sets a condition whose Status, Reason and Message are given.
func (h *Hub) condition(all *[]metav1.Condition, row *table.Row, c metav1.Condition) {
	c.ObservedGeneration = row.Meta.Generation
	c.LastTransitionTime = metav1.NewTime(h.config.Now())
	meta.SetStatusCondition(all, c)
}

// accepted says whether all of a policy can be used; sound is the message if so.
func accepted(problems []string, sound string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: sound}
	if len(problems) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", strings.Join(problems, "; ")
	}
	return c
}

// partOf is the condition of a Placement that matches some objects of releases and
// not all; others don't have it.
func partOf(parts []release.Part) metav1.Condition {
	var all []string
	for _, p := range parts {
		all = append(all, p.String())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionWholeReleases, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartOfHelmRelease, Message: strings.Join(all, "; "),
	}
}

// waiting is the condition Synced of a Placement of which removals wait, otherwise
// the one that is given.
func waiting(name string, w *v1alpha1.WaitingPrune, otherwise metav1.Condition) metav1.Condition {
	if w == nil {
		return otherwise
	}
	c := metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionFalse, Reason: reasonPruneGuard}
	if w.Digest == "" {
		c.Message = fmt.Sprintf("%d removals at %d locations are confirmed and yet to come", w.Pending, w.Locations)
		return c
	}
	c.Message = fmt.Sprintf("%d removals wait at %d locations, more at once than these allow; to let them go, run: %s",
		w.Pending, w.Locations, prune.Command(name, w.Digest))
	return c
}

// synced says whether everything assigned is applied.
func synced(c v1alpha1.Counts) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionSynced, Status: metav1.ConditionFalse}
	switch {
	case c.Failed > 0:
		out.Reason, out.Message = "Failed", "see status.errors"
	case c.Held > 0:
		out.Reason, out.Message = "Held", "locations keep what they have of some objects"
	case c.Applied < c.Assigned:
		out.Reason, out.Message = "Progressing", "not everything assigned is applied yet"
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, "Applied", allApplied(c, 0)
	}
	return out
}
