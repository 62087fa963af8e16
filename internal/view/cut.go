package view

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/table"
)

// expired tells clients of an expired revision to start over.
func expired(err error) error {
	if errors.Is(err, table.ErrExpired) || errors.Is(err, table.ErrFuture) {
		return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	return apierrors.NewInternalError(err)
}

func statusOf(err error) runtime.Object {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return &s
}

type cutKey struct{}

// cuttable lets a watch cut the connection of a client that does not read.
func cuttable(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		connection := http.NewResponseController(w)
		next(w, req.WithContext(context.WithValue(req.Context(), cutKey{}, connection)))
	}
}

// cut makes pending writes to the client fail. Where that is not possible, the
// request ends when its context does.
func cut(ctx context.Context) {
	if connection, ok := ctx.Value(cutKey{}).(*http.ResponseController); ok {
		_ = connection.SetWriteDeadline(time.Unix(1, 0)) // long ago
	}
}
