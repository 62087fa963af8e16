package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// placementStatus writes the status of Placements.
type placementStatus struct {
	Table      *table.Table
	Status     *statusWriter
	Resolved   *resolutions
	Progress   *progress.Tracker
	Pruned     *prune.Index
	Releases   *helm.Index
	Unreturned *unreturned.Index
}

// update writes the status of a Placement, unless its counts are incomplete.
func (c *placementStatus) update(ctx context.Context, p key.Placement) error {
	resolved, row := c.Resolved.get(c.Table, p)
	if row == nil || !write.Exists(c.Table, p.Space) {
		return nil
	}
	counts, partial, missed := c.Progress.Placement(ctx, p), c.Releases.PartialReleases(p, p.Space), c.Unreturned.Missed(p, p.Space)
	// Counts of an earlier state would stand beside the new generation. The counter enqueues it again.
	if counts.Incomplete || counts.UID != row.Meta.UID || counts.Generation != row.Meta.Generation {
		return nil
	}
	synced := objectstate.SyncedPlacement(counts.Counts, objectstate.LeftObjects{LeftCounts: counts.Left, IsUnknown: counts.IsLeftUnknown}, counts.Objects, int64(resolved.locations))
	if resolved.IsUpsyncOnly {
		synced = objectstate.SyncedUpsync(progress.UpsyncCounts(c.Progress, resolved.Requested), resolved.Unaskeds)
	}
	return c.Status.update(ctx, row, func(object []byte) (any, error) {
		var pl v1alpha1.Placement
		if err := json.Unmarshal(object, &pl); err != nil {
			return nil, fmt.Errorf("decode placement %q: %w", p.Name, err)
		}
		st := &pl.Status
		st.ObservedGeneration = row.Meta.Generation
		st.Spaces, st.Locations = int64(resolved.Spaces), int64(resolved.locations)
		st.Objects, st.Counts, st.Errors = counts.Objects, counts.Counts, counts.Errors
		c.Status.condition(&st.Conditions, row, accepted(resolved.Problems, "every selector and test can be used"))
		st.Prune, st.Confirmed = c.Pruned.Status(p, row.Annotation(v1alpha1.ConfirmPruneAnnotation), st.Confirmed)
		c.Status.condition(&st.Conditions, row, waiting(p.Name, st.Prune, synced))
		if len(resolved.Unknown) > 0 {
			c.Status.condition(&st.Conditions, row, metav1.Condition{
				Type: v1alpha1.ConditionLocationsKnown, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoSuchLocation,
				Message: "no location that accepts objects of this space has the name " + strings.Join(resolved.Unknown, ", "),
			})
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionLocationsKnown)
		}
		if condition, hasUpsync := unasked(&st.Conditions, p.Space, resolved.Status); hasUpsync {
			c.Status.condition(&st.Conditions, row, condition)
		}
		if len(partial) > 0 {
			c.Status.condition(&st.Conditions, row, partOf(partial))
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionWholeReleases)
		}
		if missed.Count > 0 {
			c.Status.condition(&st.Conditions, row, missed.Condition())
		} else {
			meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStatusReturned)
		}
		return pl.Status, nil
	})
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
func partOf(partial []helm.PartialRelease) metav1.Condition {
	var all []string
	for _, p := range partial {
		all = append(all, p.String())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionWholeReleases, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartOfHelmRelease, Message: strings.Join(all, "; "),
	}
}

// unasked returns the condition Upsynced of a Placement: whether all its locations report objects
// for its upsync.
func unasked(all *[]metav1.Condition, s key.Space, status placement.Status) (is metav1.Condition, ok bool) {
	if !status.HasUpsync {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
		return is, false
	}
	is = metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsked, Message: "all locations are asked"}
	if status.Unaskeds == 0 {
		return is, true
	}
	var some []string
	for _, u := range status.Unasked {
		some = append(some, u.In(s))
	}
	if n := status.Unaskeds - len(status.Unasked); n > 0 {
		some = append(some, fmt.Sprintf("and %d more", n))
	}
	is.Status, is.Reason, is.Message = metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, strings.Join(some, "; ")
	if !slices.ContainsFunc(status.Unasked, func(u placement.Unasked) bool { return u.Reason != v1alpha1.ReasonImpersonated }) {
		is.Reason = v1alpha1.ReasonImpersonated
	}
	return is, true
}
