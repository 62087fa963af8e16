package write

import (
	"context"
	"errors"
	"fmt"
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
	// lastStepPatience bounds the last step of a deletion, which does not end with its
	// client.
	lastStepPatience = 10 * time.Second
	// stepsPatience is after which time an object that is marked counts as left behind.
	stepsPatience = 2 * lastStepPatience
)

// Pods is the resource whose deletions FinishPod completes.
var Pods = key.Resource{Group: key.CoreGroup, Resource: "pods"}

// goesInSteps says whether objects of a resource are deleted gracefully, which is so only
// for Pods: they are marked, so that watchers see that they terminate, and then deleted.
// Nobody runs a Pod of a space, so none waits for its grace period.
func goesInSteps(r key.Resource) bool { return r == Pods }

// steps is the strategy of objects that are deleted in two steps.
type steps struct{ rest.RESTDeleteStrategy }

var _ rest.RESTGracefulDeleteStrategy = steps{}

// CheckGracefulDelete makes the grace period zero, whatever the client asks for.
func (steps) CheckGracefulDelete(ctx context.Context, _ runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil || ctx.Value(oneStepKey) != nil {
		return false
	}
	options.GracePeriodSeconds = new(int64)
	return true
}

// inSteps does a deletion, in one step if there is no room for the mark: a deletion makes
// room.
func inSteps(ctx context.Context, r key.Resource, del func(context.Context) error) error {
	err := del(ctx)
	if goesInSteps(r) && noRoom(err) {
		return del(context.WithValue(ctx, oneStepKey, true))
	}
	return err
}

// noRoom says whether a put was refused because the log has no room for it.
func noRoom(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// lastSteps does the last step of a deletion even if the client has hung up after the first,
// since nobody else would do it soon.
type lastSteps struct{ storage.Interface }

func (l lastSteps) Delete(ctx context.Context, k string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStepPatience)
	defer cancel()
	return l.Interface.Delete(ctx, k, out, preconditions, validate, cached, options)
}

// hasFinalizers says whether an object has finalizers. One that is being deleted and has
// none is between the two steps of its deletion, or was left there by a crash.
func hasFinalizers(row *table.Row) bool {
	return len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 0
}

// LeftBehind says whether an object may have been left between the two steps of its
// deletion, which FinishPod then completes.
func LeftBehind(row *table.Row) bool { return row != nil && row.Meta.Deleting && !hasFinalizers(row) }

// FinishPod completes the deletion of a Pod that was left between its two steps: by a crash,
// or by a lost connection. It returns Waiting while whoever began it may still complete it.
func (s *Server) FinishPod(ctx context.Context, o key.Object) (Progress, error) {
	row, _ := s.config.Table.Get(o.Key())
	if !LeftBehind(row) {
		return Idle, nil
	}
	// A time that does not parse, or is in the future, is no reason to wait.
	marked, _ := time.Parse(time.RFC3339, gjson.GetBytes(row.Value, "metadata.deletionTimestamp").String())
	if age := s.config.Now().Sub(marked); age >= 0 && age < stepsPatience {
		return Waiting, nil
	}
	rev, err := s.reap(ctx, row, key.Identity{})
	if err != nil {
		return Idle, fmt.Errorf("end the deletion of %q: %w", o.Path(), err)
	}
	return Gone, s.config.Table.WaitFor(ctx, rev)
}
