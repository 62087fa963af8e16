package write

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// lastStepTimeout limits the last step of a deletion, which continues if its client
	// disconnects.
	lastStepTimeout = 10 * time.Second
	// stepsTimeout is the time after which a Pod between the two steps of a deletion is left behind.
	stepsTimeout = 2 * lastStepTimeout
)

// Pods is the resource whose deletions FinishPod completes.
var Pods = key.Resource{Group: key.CoreGroup, Resource: "pods"}

// goesInSteps reports whether objects of a resource are deleted gracefully. Only Pods are: the first
// step sets the deletion timestamp, so that watches show a terminating Pod, and the second deletes
// it. Pods of a space do not run, so there is no grace period.
func goesInSteps(r key.Resource) bool { return r == Pods }

// steps is the strategy of objects that are deleted in two steps.
type steps struct{ rest.RESTDeleteStrategy }

var _ rest.RESTGracefulDeleteStrategy = steps{}

// CheckGracefulDelete sets the grace period to zero.
func (steps) CheckGracefulDelete(ctx context.Context, _ runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil || ctx.Value(oneStepKey) != nil {
		return false
	}
	options.GracePeriodSeconds = new(int64)
	return true
}

// inSteps deletes an object. If the log has no space for the first step, it skips that step, because a
// deletion frees space.
func inSteps(ctx context.Context, r key.Resource, del func(context.Context) error) error {
	err := del(ctx)
	if goesInSteps(r) && noRoom(err) {
		return del(context.WithValue(ctx, oneStepKey, true))
	}
	return err
}

// noRoom reports whether a put was refused because of the quota of the log.
func noRoom(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// lastSteps does the second step of a deletion even if the client disconnects after the first.
// Otherwise, the Pod would stay until FinishPod deletes it.
type lastSteps struct{ storage.Interface }

func (l lastSteps) Delete(ctx context.Context, k string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStepTimeout)
	defer cancel()
	return l.Interface.Delete(ctx, k, out, preconditions, validate, cached, options)
}

// hasFinalizers reports whether an object has finalizers. A Pod that is being deleted and has none is
// between the two steps of its deletion, or was left there by a crash.
func hasFinalizers(row *table.Row) bool {
	return len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 0
}

// LeftBehind reports whether an object may have been left between the two steps of its deletion, which
// FinishPod then completes.
func LeftBehind(row *table.Row) bool { return row != nil && row.Meta.Deleting && !hasFinalizers(row) }
