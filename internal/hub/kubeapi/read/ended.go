package read

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Errors that end a watch whose stream condition fails.
var (
	// errStopped ends a watch without an error event. The client has gone, or it gets the reason
	// when it starts another watch.
	errStopped = errors.New("watch stopped")
	// errAnother ends a watch with an error event that makes the client list again. The location
	// has been deleted, but its cluster keeps running the objects, so the client must not get
	// deletions. The same holds for a revision of a deleted space of the same name, and for one
	// before a change of a claim.
	errAnother = errors.New("the space or location is gone, or another one")
)

// expired is the error that makes clients start over.
func expired(err error) error {
	if errors.Is(err, table.ErrExpired) || errors.Is(err, table.ErrFuture) || errors.Is(err, errAnother) {
		return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	return apierrors.NewInternalError(err)
}

// refused returns a watch whose only event is the error. A kube-apiserver answers in the same way
// if it can't serve a watch from the requested revision: the client then lists again, whereas it
// would retry a failed request. Other errors fail the request.
func refused(err error) (watch.Interface, error) {
	if errors.Is(err, errStopped) {
		none := make(chan watch.Event)
		close(none)
		return over(none), nil
	}
	if !apierrors.IsResourceExpired(err) && !storage.IsTooLargeResourceVersion(err) {
		return nil, err
	}
	results := make(chan watch.Event, 1)
	results <- watch.Event{Type: watch.Error, Object: statusOf(err)}
	close(results)
	return over(results), nil
}

// over is a watch that has ended.
type over <-chan watch.Event

// ResultChan has the last event.
func (o over) ResultChan() <-chan watch.Event { return o }

// Stop has nothing to end.
func (over) Stop() {}

func statusOf(err error) runtime.Object {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return &s
}

type cutKey struct{}

// cuttable lets a watch set the write deadline of the client's connection, see cut.
func cuttable(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		connection := http.NewResponseController(w)
		next(w, req.WithContext(context.WithValue(req.Context(), cutKey{}, connection)))
	}
}

// cut sets the deadline of writes to the client. Without a connection in the context it does
// nothing; the request then ends with its context.
func cut(ctx context.Context, deadline time.Time) {
	if connection, ok := ctx.Value(cutKey{}).(*http.ResponseController); ok {
		_ = connection.SetWriteDeadline(deadline)
	}
}
