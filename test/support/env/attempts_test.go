package env

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	kubectl := func(stderr string) error {
		return &CommandError{Command: "kubectl get cm", Stderr: stderr, Err: &exec.ExitError{}}
	}
	for _, err := range []error{
		refused,
		fmt.Errorf("get location %q: %w", "edge", refused),
		errors.Join(refused, context.DeadlineExceeded),
		apierrors.NewTooManyRequests("too many", 1),
		apierrors.NewServerTimeout(configMaps, "get", 1),
		apierrors.NewTimeoutError("too slow", 1),
		apierrors.NewServiceUnavailable("it stops"),
		fmt.Errorf("list: %w", apierrors.NewInternalError(errors.New("etcdserver: request timed out"))),
		kubectl("The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"),
		kubectl("Unable to connect to the server: net/http: TLS handshake timeout"),
		kubectl("Error from server (TooManyRequests): the server has received too many requests"),
	} {
		if !unanswered(err) {
			t.Errorf("%v counts as a state", err)
		}
	}
	for _, err := range []error{
		errors.New("the condition says: dial tcp: connection refused"),
		errors.New("it is there: " + refused.Error()),
		errors.Join(refused, errors.New("b has 1, want 2")),
		fmt.Errorf("%w and %w", refused, errors.New("b has 1, want 2")),
		apierrors.NewNotFound(configMaps, "a"),
		apierrors.NewConflict(configMaps, "a", errors.New("connection refused")),
		apierrors.NewInternalError(errors.New("no such store")),
		kubectl(`Error from server (NotFound): configmaps "a" not found`),
		context.Canceled,
	} {
		if unanswered(err) {
			t.Errorf("%v counts as no answer", err)
		}
	}
}

func TestThroughoutRepeatsUnanswered(t *testing.T) {
	t.Parallel()
	const allowed = time.Minute
	busy := apierrors.NewTooManyRequests("too many", 1)
	for _, test := range []struct {
		name string
		f    func(since time.Duration) error
		took time.Duration // within a second
		want string
	}{
		{"holds", func(time.Duration) error { return nil }, 2 * time.Second, ""},
		{"a state", func(since time.Duration) error {
			if since > time.Second {
				return errors.New("gone")
			}
			return nil
		}, time.Second, "no longer so: gone"},
		{"answers again", func(since time.Duration) error {
			if since > time.Second && since < 31*time.Second {
				return busy
			}
			return nil
		}, 32 * time.Second, ""},
		{"a state after that", func(since time.Duration) error {
			switch {
			case since > 31*time.Second:
				return errors.New("gone")
			case since > time.Second:
				return busy
			}
			return nil
		}, 31 * time.Second, "no longer so: gone"},
		{"seldom answers", func(since time.Duration) error {
			if since%(21*time.Second) > 500*time.Millisecond {
				return busy
			}
			return nil
		}, 61500 * time.Millisecond, "no answer for 1m0s: too many"},
		{"never answers again", func(time.Duration) error { return busy }, allowed, "no answer for 1m0s: too many"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := throughout(t.Context(), 2*time.Second, allowed, func() error { return test.f(time.Since(start)) })
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("it returned %v, want %q", err, test.want)
				}
				if took := time.Since(start); took < test.took-time.Second || took > test.took+time.Second {
					t.Errorf("it took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestAttemptsListDistinctErrors(t *testing.T) {
	t.Parallel()
	var l attempts
	now := time.Now()
	l.add(errors.New("first"), now)
	if s := l.String(); s != "" {
		t.Errorf("a single attempt is listed: %s", s)
	}
	for i, text := range []string{"second", "first", "second"} {
		l.add(errors.New(text), now.Add(time.Duration(i+1)*time.Second))
	}
	want := "\n4 attempts:\n- 2 times from 0s to 2s: first\n- 2 times from 1s to 3s: second"
	if s := l.String(); s != want {
		t.Errorf("it lists %q, want %q", s, want)
	}
	for i := range 2 * mostErrors {
		l.add(fmt.Errorf("%d is wrong\n%s", i, strings.Repeat("x", 2*mostText)), now)
	}
	if s := l.String(); len(s) > (mostErrors+1)*(mostText+100) || !strings.Contains(s, "first") || !strings.Contains(s, "19 is wrong") {
		t.Errorf("it lists %q", s)
	}
}
