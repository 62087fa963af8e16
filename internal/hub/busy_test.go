package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// etcdLate is the error of etcd for a request that it could not answer in time.
const etcdLate = "etcdserver: request timed out"

// isLate reports whether the body of an answer with a code is that of a request which the hub or
// its etcd did not complete in time, as on a machine that stands still. The request may have
// taken effect.
func isLate(code int, body []byte) bool {
	switch code {
	case http.StatusInternalServerError, http.StatusServiceUnavailable:
		return bytes.Contains(body, []byte(etcdLate))
	case http.StatusGatewayTimeout:
		return bytes.Contains(body, []byte(etcdLate)) || bytes.Contains(body, []byte(`"reason":"Timeout"`)) || bytes.Contains(body, []byte(`"reason":"ServerTimeout"`))
	}
	return false
}

// isBusy reports whether a request failed because the hub, its etcd or the machine was too busy.
func isBusy(err error) bool {
	if err == nil {
		return false
	}
	if refused, ok := errors.AsType[*protocol.RefusedError](err); ok {
		return refused.Code == http.StatusGatewayTimeout || isLate(refused.Code, refused.Body)
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || strings.Contains(err.Error(), etcdLate)
}

// mostLate is how many late answers the tests of this process may repeat a request after. A machine
// that stands still for a while makes several; more of them are a fault of the hub.
const mostLate = 50

// lateAnswers counts them.
var lateAnswers atomic.Int32

// mayRepeat counts a late answer, prints it, and reports whether the request may be repeated.
func mayRepeat(what string, end time.Time) bool {
	n := lateAnswers.Add(1)
	fmt.Fprintf(os.Stderr, "late answer %d of at most %d that are repeated: %s\n", n, mostLate, what)
	return n <= mostLate && time.Now().Before(end)
}

// tries calls do until it does not fail because something is too busy, but no longer than
// limit.Wait, see mayRepeat. An attempt that has failed may have taken effect.
func tries(do func() error) error {
	for end := time.Now().Add(limit.Wait); ; retry.Pause(context.Background(), batchDelay) {
		if err := do(); !isBusy(err) || !mayRepeat(err.Error(), end) {
			return err
		}
	}
}

// persistent repeats a request whose answer isLate until limit.Wait has passed, see mayRepeat. If
// such a deletion or creation has taken effect, the answer to the repeated request is that of success.
type persistent struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p persistent) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	for again := req; ; retry.Pause(req.Context(), batchDelay) {
		resp, err := p.RoundTripper.RoundTrip(again)
		if err == nil && again != req {
			resp, err = p.afterLate(req, resp, began)
		}
		if err != nil || resp.StatusCode < http.StatusInternalServerError {
			return resp, err
		}
		body, err := kept(resp)
		if err != nil {
			return nil, err
		}
		repeatable := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
		if !isLate(resp.StatusCode, body) || !repeatable || !mayRepeat(fmt.Sprintf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, body), began.Add(limit.Wait)) {
			return resp, nil
		}
		again = req.Clone(req.Context())
		if req.GetBody != nil {
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// afterLate returns the answer of success if the answer to a repeated request, which was first sent
// at a time, shows that an earlier attempt has taken effect.
func (p persistent) afterLate(req *http.Request, resp *http.Response, began time.Time) (*http.Response, error) {
	switch {
	case req.Method == http.MethodDelete && resp.StatusCode == http.StatusNotFound:
		if _, err := kept(resp); err != nil {
			return nil, err
		}
		resp.StatusCode, resp.Status = http.StatusOK, http.StatusText(http.StatusOK)
		resp.Header, resp.ContentLength = http.Header{"Content-Type": {"application/json"}}, -1
		resp.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`))
	case req.Method == http.MethodPost && resp.StatusCode == http.StatusConflict:
		body, err := kept(resp)
		if err != nil {
			return nil, err
		}
		var status metav1.Status
		if err := json.Unmarshal(body, &status); err != nil {
			return nil, err
		}
		if status.Reason != metav1.StatusReasonAlreadyExists || status.Details == nil {
			return resp, nil
		}
		get := req.Clone(req.Context())
		get.Method, get.Body, get.GetBody, get.ContentLength = http.MethodGet, nil, nil, 0
		get.URL = get.URL.JoinPath(status.Details.Name)
		made, err := p.RoundTripper.RoundTrip(get)
		if err != nil || made.StatusCode != http.StatusOK {
			return made, err
		}
		body, err = kept(made)
		if err != nil {
			return nil, err
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, err
		}
		if object.CreationTimestamp.Time.Before(began.Truncate(time.Second)) { // it was there before
			return resp, nil
		}
		made.StatusCode, made.Status = http.StatusCreated, http.StatusText(http.StatusCreated)
		return made, nil
	}
	return resp, nil
}

// kept reads the body of an answer and leaves it there to be read again.
func kept(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}
