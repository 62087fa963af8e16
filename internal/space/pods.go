package space

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

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

const (
	// lastStepPatience bounds how long the last step of a deletion goes on for a client
	// that has gone.
	lastStepPatience = 10 * time.Second
	// stepsPatience is how long after its mark an object counts as left behind.
	stepsPatience = 2 * lastStepPatience
)

// Pods are what FinishPod is for.
var Pods = key.Resource{Group: key.CoreGroup, Resource: "pods"}

// goesInSteps says whether objects of a resource are deleted gracefully, which is true
// of Pods alone: they are marked, so that who watches sees their end come, and then
// deleted. Nobody runs a Pod of a space, so none waits for its grace period.
func goesInSteps(r key.Resource) bool { return r == Pods }

// steps are the rules of what is deleted in two steps.
type steps struct{ rest.RESTDeleteStrategy }

var _ rest.RESTGracefulDeleteStrategy = steps{}

// CheckGracefulDelete has every deletion done at once, whatever a client asks for.
func (steps) CheckGracefulDelete(ctx context.Context, _ runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil || ctx.Value(oneStepKey) != nil {
		return false
	}
	options.GracePeriodSeconds = new(int64)
	return true
}

// inSteps does a deletion, in one step if there is no room for the mark of the first:
// what is deleted makes room.
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

// lastSteps does the last step of a deletion, also for a client that has hung up after
// the first: nobody else would do it soon.
type lastSteps struct{ storage.Interface }

func (l lastSteps) Delete(ctx context.Context, k string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStepPatience)
	defer cancel()
	return l.Interface.Delete(ctx, k, out, preconditions, validate, cached, options)
}

// hasFinalizers says what an object that is being deleted waits for. One without is between the two steps of its deletion, or was left there by a crash.
func hasFinalizers(row *table.Row) bool {
	return len(gjson.GetBytes(row.Value, "metadata.finalizers").Array()) > 0
}

// LeftBehind says whether an object may have been left between the two steps of its
// deletion. FinishPod ends it then.
func LeftBehind(row *table.Row) bool { return row != nil && row.Meta.Deleting && !hasFinalizers(row) }

// FinishPod ends the deletion of a Pod that was left between its two steps: by a crash,
// or by a connection that was lost. It is Waiting while who has begun may still do it.
func (s *Server) FinishPod(ctx context.Context, o key.Object) (Progress, error) {
	row, _ := s.config.Table.Get(o.Key())
	if !LeftBehind(row) {
		return Idle, nil
	}
	// A time that does not parse, or is to come, is no reason to wait.
	marked, _ := time.Parse(time.RFC3339, gjson.GetBytes(row.Value, "metadata.deletionTimestamp").String())
	if age := s.config.Now().Sub(marked); age >= 0 && age < stepsPatience {
		return Waiting, nil
	}
	rev, err := s.reap(ctx, row)
	if err != nil {
		return Idle, fmt.Errorf("end the deletion of %q: %w", o.Path(), err)
	}
	return Gone, s.config.Table.WaitFor(ctx, rev)
}
