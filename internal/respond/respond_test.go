package respond

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/fair"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/store"
)

// TestErrors shows that whatever goes wrong is a Status that clients understand.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   int
		reason metav1.StatusReason
	}{
		{errors.New("broken"), http.StatusInternalServerError, metav1.StatusReasonUnknown},
		{BadRequest("no %s", "sense"), http.StatusBadRequest, metav1.StatusReasonBadRequest},
		{BadBody(errors.New("no JSON"), "line %d", 1), http.StatusBadRequest, metav1.StatusReasonBadRequest},
		{BadBody(apierrors.NewTooManyRequests("busy", 1), "line %d", 1), http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests},
		{NotFound("/x"), http.StatusNotFound, metav1.StatusReasonNotFound},
		{Unrouted(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, metav1.StatusReasonTimeout},
		{fmt.Errorf("write: %w", store.ErrFull), http.StatusInsufficientStorage, v1alpha1.ReasonLogFull},
		{fmt.Errorf("write: %w", rpctypes.ErrNoSpace), http.StatusInsufficientStorage, v1alpha1.ReasonLogFull},
		{Admitted(store.ErrFull), http.StatusInsufficientStorage, v1alpha1.ReasonLogFull},
		{Admitted(store.ErrLate), http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests},
	} {
		w := httptest.NewRecorder()
		Error(w, httptest.NewRequest(http.MethodGet, "/spaces/a/api", nil), c.err)
		var status metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Fatalf("%v: %s: %v", c.err, w.Body, err)
		}
		if w.Code != c.code || status.Kind != "Status" || int(status.Code) != c.code || status.Reason != c.reason && c.reason != metav1.StatusReasonUnknown {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	Error(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(gone), context.Canceled)
	if w.Body.Len() > 0 {
		t.Errorf("a client that is gone is answered %s", w.Body)
	}
}

// TestTurns shows that a request waits for its turn, is refused after its patience, and
// gives back what it held.
func TestTurns(t *testing.T) {
	turns := Turns{
		Queue:  fair.NewQueue(fair.QueueConfig{Limit: 1, Share: 1, Queue: 1, Patience: 20 * time.Millisecond}),
		Bodies: fair.Bodies{Queue: fair.NewQueue(fair.QueueConfig{Limit: 1, Share: 1, Queue: 1, Patience: time.Minute})},
	}
	serve := func(inside http.HandlerFunc) int {
		w := httptest.NewRecorder()
		turns.Serve(route.Space("a"), w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")), inside)
		return w.Code
	}
	ok := func(w http.ResponseWriter, _ *http.Request) { JSON(w, "ok") }
	if code := serve(ok); code != http.StatusOK {
		t.Errorf("alone: %d", code)
	}
	second := 0
	if code := serve(func(w http.ResponseWriter, r *http.Request) { second = serve(ok); ok(w, r) }); code != http.StatusOK || second != http.StatusTooManyRequests {
		t.Errorf("one inside of another: %d, %d", code, second)
	}
	if code := serve(ok); code != http.StatusOK {
		t.Errorf("after both: %d", code)
	}
}
