package reconcile

import (
	"context"
	"fmt"

	"github.com/tidwall/sjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/wire"
)

// recreate deletes an object of which an immutable field has changed, so that it is
// created anew when it is gone. It does so only if the policy says Recreate and a dry
// run shows that the object could be created. An object that others use is not deleted.
func (r *Reconciler) recreate(ctx context.Context, t *turn, d decide.Decision, refused error) outcome {
	o := outcome{record: t.record, failed: true, Decision: decide.Decision{
		State: wire.Failed, Reason: v1alpha1.ReasonImmutable, Message: wire.Brief(kubeclient.StatusOf(refused).Message),
		Retry: retry.Backoff(t.view.Failures, refusedRetry, maxRetry),
	}}
	if !t.want().Object().Policy.Recreate {
		return o
	}
	if d.Drift && t.record != nil && t.record.Mutated != nil {
		o.Message = wire.Brief("it is not recreated for what its admission changes: " + o.Message)
		return o
	}
	use, err := r.remover.users.of(ctx, t)
	if err != nil {
		return r.refusals.of(t, err)
	}
	if use.ours || use.by != "" {
		o.Message = wire.Brief("it is not recreated while there is something in it: " + o.Message)
		return o
	}
	if err := r.wouldCreate(ctx, t); err != nil {
		o.Message = wire.Brief(fmt.Sprintf("it is not recreated, since it could not be made: %v", err))
		return o
	}
	gone, err := r.Target.Remove(ctx, t.view.At, t.id, d.UID, metav1.DeletePropagationBackground)
	switch {
	case kubeclient.MissingObject(err, t.id):
		gone = true
	case err != nil:
		return r.refusals.of(t, err)
	}
	r.Log.Info("deleted an object to make it anew", "object", t.object().Path(), "reason", o.Message)
	o.failed, o.State, o.Reason, o.Retry = false, wire.Waiting, v1alpha1.ReasonRecreating, decide.TerminatingRetry
	if gone {
		o.Retry = 1
		o.seen = &decide.Observed{Presence: decide.Absent, Revision: t.view.Seen.Revision}
	}
	return o
}

// wouldCreate returns why the target would refuse to create the object if its name were
// free; nil: it would not. A dry run tells, since an API server validates an object
// before it finds that the name is taken.
func (r *Reconciler) wouldCreate(ctx context.Context, t *turn) error {
	body, err := r.writer.body(t, "")
	if err != nil {
		return err
	}
	if body, err = sjson.DeleteBytes(body, "metadata.resourceVersion"); err != nil {
		return fmt.Errorf("make body of a creation: %w", err)
	}
	err = r.Target.TryCreate(ctx, t.view.At, t.id, t.view.As.Manager(), body)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
