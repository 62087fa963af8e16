// Package respond has what answers share that no kind's own handler gives: errors as a
// Status that clients of Kubernetes understand, JSON, and turns for requests.
//
// It must never know what is asked.
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

// lateRetry is after how many seconds a client should retry a write for which room was
// not found in time.
const lateRetry = 5

// Codecs encode Status objects for errors outside of any kind's handler.
var Codecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	return serializer.NewCodecFactory(scheme)
})

// Error answers with a Status. A client that has gone away gets none.
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

// JSON answers with a value.
func JSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(v)
}

// BadRequest says what is wrong with a request.
func BadRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// BadBody is the answer when a body could not be read: it is malformed, or err says itself what the answer is, such
// as of a body that exceeds a limit, or is too large to be read without a turn when none is free.
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

// NotFound says that nothing is served at a path.
func NotFound(path string) error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Message = fmt.Sprintf("the server could not find the requested resource (path %q)", path)
	err.ErrStatus.Details = nil
	return err
}

// Unrouted is the answer of Kubernetes' router to a request without a handler.
func Unrouted(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

// NoRoom says whether an error says that the log has no room.
func NoRoom(err error) bool {
	return errors.Is(err, etcd.ErrFull) || errors.Is(err, rpctypes.ErrNoSpace)
}

// Late says whether an error says that etcd did not answer in time.
func Late(err error) bool {
	return errors.Is(err, rpctypes.ErrTimeout) || errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost)
}

// Unanswered is the answer to a write that etcd did not answer in time. It does not say when to
// try again, which libraries would do by themselves: an object with a generated name would be
// made twice.
func Unanswered() error {
	return apierrors.NewTimeoutError("etcd did not answer in time; the write may have been done all the same", 0)
}

// NotNow is the answer of a hub that does not serve yet, or no more, to what it has not begun to do.
// Clients of Kubernetes ask again after the second that it names, and do not take it for the end of a watch.
func NotNow(message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// LogFull is the answer to a write for which the log has no room.
func LogFull(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: v1alpha1.ReasonLogFull, Message: err.Error(),
	}}
}

// Admitted is the answer to a write that Log.Admit refused with err.
func Admitted(err error) error {
	switch {
	case errors.Is(err, etcd.ErrFull):
		return LogFull(err)
	case errors.Is(err, etcd.ErrLate):
		return apierrors.NewTooManyRequests(err.Error(), lateRetry)
	}
	return err
}
