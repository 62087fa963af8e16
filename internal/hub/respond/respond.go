// Package respond contains shared helpers for HTTP responses: errors as Status objects that
// Kubernetes clients understand, JSON, and turns for requests.
//
// It must not depend on the content of requests.
package respond

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// lateRetry is the number of seconds after which a client should retry a write that timed out in
// the queue for the log.
const lateRetry = 5

// Codecs encode Status objects for errors outside the handlers of kinds.
var Codecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	return serializer.NewCodecFactory(scheme)
})

// Error responds with a Status, unless the client has disconnected.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Context().Err() != nil && errors.Is(err, context.Canceled):
		return
	case errors.Is(err, context.DeadlineExceeded):
		err = apierrors.NewTimeoutError(err.Error(), 1)
	case NoRoom(err):
		err = LogFull(err)
	case Late(err):
		err = Unanswered()
	}
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		info = &request.RequestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	}
	r = r.WithContext(request.WithRequestInfo(r.Context(), info))
	responsewriters.ErrorNegotiated(err, Codecs(), schema.GroupVersion{Version: "v1"}, w, r)
}

// JSON responds with a value.
func JSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// Errors of the connection are ignored.
	_ = json.NewEncoder(w).Encode(v)
}

// BadRequest returns a BadRequest error with a message.
func BadRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// BadBody returns the error for a body that could not be read. The body is malformed, or err is a
// Status error itself: for example, a body that exceeds a limit, or that needs a turn when none is
// free.
func BadBody(err error, format string, args ...any) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		refused := status.Status()
		refused.Message = fmt.Sprintf(format, args...) + ": " + refused.Message
		return &apierrors.StatusError{ErrStatus: refused}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return BadRequest("%s: %v", fmt.Sprintf(format, args...), err)
}

// NotFound returns the error for a path that is not served.
func NotFound(path string) error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Message = fmt.Sprintf("the server could not find the requested resource (path %q)", path)
	err.ErrStatus.Details = nil
	return err
}

// Unrouted returns the error of Kubernetes' router for a request without a handler.
func Unrouted(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

// NoRoom reports whether the cause of an error is a full log.
func NoRoom(err error) bool {
	return errors.Is(err, etcd.ErrFull) || errors.Is(err, rpctypes.ErrNoSpace)
}

// Late reports whether the cause of an error is a timeout of etcd.
func Late(err error) bool {
	return errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost)
}

// Unanswered returns the error for a write to which etcd did not respond in time. It has no
// Retry-After, since libraries would then retry automatically: an object with a generated name
// would be created twice.
func Unanswered() error {
	return apierrors.NewTimeoutError("etcd did not answer in time; the write may have been done all the same", 0)
}

// NotNow returns the error of a hub that does not serve yet, or is stopping, for a request that it
// has not begun. Kubernetes clients retry after the second that it names, and do not treat it as
// the end of a watch.
func NotNow(message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// LogFull returns the error for a write for which the log has no space.
func LogFull(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: v1alpha1.ReasonLogFull, Message: err.Error(),
	}}
}

// Admitted returns the error for a write that Log.Admit refused with err.
func Admitted(err error) error {
	switch {
	case errors.Is(err, etcd.ErrFull):
		return LogFull(err)
	case errors.Is(err, etcd.ErrLate):
		return apierrors.NewTooManyRequests(err.Error(), lateRetry)
	}
	return err
}
