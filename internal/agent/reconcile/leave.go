package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// leaves reports whether the object is still being removed after the turn, so that objects
// that are removed after it wait.
func (t concluded) leaves() bool {
	o := &t.outcome
	return t.winner < 0 && o.record != nil && !o.forget && !o.letGo && !o.record.Source.Policy.Orphan &&
		o.State != wire.Orphaned && o.Reason != v1alpha1.ReasonPruneGuard && o.Reason != v1alpha1.ReasonNoSuchResource
}

// inOrder reports whether the removal of the object has to wait until others are gone. It also
// returns the outcome of the turn in that case.
func (r *remover) inOrder(ctx context.Context, t *turn) (outcome, bool, error) {
	id := t.id.String()
	first, waits := r.engine.Ahead(id, false)
	if !waits && t.id.Resource == worklist.ClusterRoles {
		aggregates, err := r.aggregates(ctx, t)
		if err != nil {
			return outcome{}, false, err
		}
		if aggregates {
			first, waits = r.engine.Ahead(id, true)
		}
	}
	if !waits {
		return outcome{}, false, nil
	}
	o := outcome{record: t.record, held: true, Decision: decide.Decision{Retry: min(worklist.OrderRetry, first.Rest)}}
	if rest := worklist.TellAfter - first.Held; rest > 0 {
		o.keep, o.Retry = true, min(rest, first.Rest)
		return o, true, nil
	}
	what, reason := waitedFor(first.Rank)
	o.State, o.Reason = wire.Removing, reason
	o.Message = fmt.Sprintf("%s that leave with it go first, within %s: %s", what, worklist.TimeoutOf(first.Rank), first.ID)
	return o, true, nil
}

// waitedFor names the objects of a rank that others wait for, and the reason to report.
func waitedFor(r key.Rank) (what, reason string) {
	switch r {
	case key.RankHooks:
		return "webhooks, admission policies and API services", v1alpha1.ReasonWaitsForWebhooks
	case key.RankCustom:
		return "custom resources", v1alpha1.ReasonWaitsForCustomResources
	case key.RankWorkloads:
		return "workloads", v1alpha1.ReasonWaitsForWorkloads
	default:
		return "ClusterRoles", v1alpha1.ReasonWaitsForClusterRoles
	}
}

// aggregates reports whether the object at the target is a ClusterRole to which we applied
// an aggregation rule.
func (r *remover) aggregates(ctx context.Context, t *turn) (bool, error) {
	m, err := r.target.Get(ctx, t.view.Place, t.id)
	if err != nil {
		if kubeclient.MissingObject(err, t.id) || kubeclient.MissingKind(err) {
			err = nil // the removal finds out
		}
		return false, err
	}
	return slices.ContainsFunc(m.ManagedFields, func(f ownership.ManagedFields) bool {
		return f.Manager == t.view.As.Manager() && gjson.GetBytes(f.FieldsV1, "f:aggregationRule").Exists()
	}), nil
}

// propagation is how to delete an object. One that may own Pods is deleted in the
// foreground: it stays until they have ended, and the agent needs no permission to see
// them. One that no controller has seen yet owns none, and would stay for ever at a
// target without controllers, so it is deleted in the background.
func (r *remover) propagation(ctx context.Context, t *turn) (metav1.DeletionPropagation, error) {
	if !decide.OwnsPods(t.id.Resource) {
		return metav1.DeletePropagationBackground, nil
	}
	there, err := r.target.GetAll(ctx, t.view.Place, t.id)
	switch {
	case kubeclient.MissingObject(err, t.id), kubeclient.MissingNamespace(err, t.id), kubeclient.MissingKind(err): // the removal finds out
		return metav1.DeletePropagationBackground, nil
	case err != nil:
		return "", err
	case hasValue(gjson.ParseBytes(there.Status)):
		return metav1.DeletePropagationForeground, nil
	}
	return metav1.DeletePropagationBackground, nil
}

// hasValue reports whether a status has any value that is not empty or zero.
func hasValue(status gjson.Result) bool {
	switch {
	case status.IsObject(), status.IsArray():
		some := false
		status.ForEach(func(_, v gjson.Result) bool {
			some = hasValue(v)
			return !some
		})
		return some
	default:
		return status.Exists() && status.Raw != "0" && status.Raw != "null" && status.Raw != `""`
	}
}

// removeNow deletes in the background an object that is being deleted in the foreground and
// whose Pods take too long to end, or never will, as on a lost node.
func (r *remover) removeNow(ctx context.Context, t *turn, d decide.Decision) (outcome, error) {
	m, err := r.target.Get(ctx, t.view.Place, t.id)
	switch {
	case kubeclient.MissingObject(err, t.id), kubeclient.MissingNamespace(err, t.id), err == nil && m.UID != d.UID:
		return outcome{}, errLook
	case err != nil:
		return outcome{}, err
	case m.ProvesOthers(t.view.As, t.kind()):
		return outcome{forget: true, seen: r.gone(t)}, nil
	}
	o := outcome{record: t.record, hurried: true, Decision: decide.Terminating(true)}
	if t.winner >= 0 {
		o.State = wire.Waiting
	}
	o.Message = "it is being deleted, and has finalizers"
	if !slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents) {
		return o, nil
	}
	gone, err := r.target.Remove(ctx, t.view.Place, t.id, d.UID, metav1.DeletePropagationBackground)
	switch {
	case kubeclient.MissingObject(err, t.id), kubeclient.PreconditionFailed(err):
		return outcome{}, errLook
	case err != nil:
		return outcome{}, err
	}
	r.log.Info("the Pods of a deleted object take too long to end; it no longer waits for them", "object", t.object().Path())
	if gone {
		o.seen, o.Retry = &decide.Observed{Existence: decide.Absent, Revision: t.view.Seen.Revision}, 1
	}
	return o, nil
}
