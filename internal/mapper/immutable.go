package mapper

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/tidwall/sjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/wire"
)

// saysImmutable is how API servers say that a field can't change: the one
// message of API machinery, and what validations of kinds say of their own.
var saysImmutable = regexp.MustCompile(
	`(?i)immutable|once (set|created)|may not (change|be changed)|cannot (change|be changed|be updated)|updates? to .* (is|are) forbidden`)

// immutable says that the target refused a change, not the object: some field
// can't change once it is set.
func immutable(err error) bool {
	s := statusOf(err)
	if s == nil || s.Reason != metav1.StatusReasonInvalid || s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if saysImmutable.MatchString(c.Message) {
			return true
		}
	}
	return false
}

// recreate deletes an object of which a field can't change, so that it is made
// anew when it is gone, if the policy has it so and it could be made. What
// others use stays as it is.
func (r *reconciler) recreate(ctx context.Context, t *turn, d decision, refused error) outcome {
	o := outcome{record: t.record, failed: true, decision: decision{
		state: wire.Failed, reason: v1alpha1.ReasonImmutable, message: wire.Brief(statusOf(refused).Message),
		retry: retry.Backoff(t.view.failures, refusedRetry, maxRetry),
	}}
	if !t.want().object().Policy.Recreate {
		return o
	}
	if d.drift && t.record != nil && t.record.Mutated != nil {
		o.message = wire.Brief("it is not recreated for what its admission changes: " + o.message)
		return o
	}
	use, err := r.useOf(ctx, t)
	if err != nil {
		return r.refused(t, err)
	}
	if use.ours || use.by != "" {
		o.message = wire.Brief("it is not recreated while there is something in it: " + o.message)
		return o
	}
	if err := r.wouldCreate(ctx, t); err != nil {
		o.message = wire.Brief(fmt.Sprintf("it is not recreated, since it could not be made: %v", err))
		return o
	}
	gone, err := r.target.remove(ctx, t.view.at, t.id, d.uid, metav1.DeletePropagationBackground)
	switch {
	case missingObject(err, t.id):
		gone = true
	case err != nil:
		return r.refused(t, err)
	}
	r.log.Info("deleted an object to make it anew", "object", t.object().Path(), "reason", o.message)
	o.failed, o.state, o.reason, o.retry = false, wire.Waiting, v1alpha1.ReasonRecreating, terminatingRetry
	if gone {
		o.retry = 1
		o.seen = &observed{presence: absent, revision: t.view.seen.revision}
	}
	return o
}

// wouldCreate returns why the target would not make the object if its name were
// free; nil: it would. An API server finds all that is wrong with an object
// before it finds that the name is taken.
func (r *reconciler) wouldCreate(ctx context.Context, t *turn) error {
	body, err := r.body(t, "")
	if err != nil {
		return err
	}
	if body, err = sjson.DeleteBytes(body, "metadata.resourceVersion"); err != nil {
		return fmt.Errorf("make body of a creation: %w", err)
	}
	err = r.target.tryCreate(ctx, t.view.at, t.id, t.view.as.Manager(), body)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// tryCreate creates an object without effect.
func (t *target) tryCreate(ctx context.Context, p place, id key.Identity, manager string, body []byte) error {
	var o marks.Observation
	return t.do(ctx, request{
		verb: "try", method: http.MethodPost, path: p.collection(id.Namespace), accept: smallAnswer, content: fullAnswer, body: body,
		query: url.Values{"fieldManager": {manager}, "dryRun": {"All"}},
	}, &o)
}
