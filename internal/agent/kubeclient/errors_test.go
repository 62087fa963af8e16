package kubeclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func invalid(messages ...string) error {
	var causes []metav1.StatusCause
	for _, m := range messages {
		causes = append(causes, metav1.StatusCause{Field: "spec.x", Message: m})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{Causes: causes},
	}}
}

// TestCause shows that the text of an error has the cause and the address of the API server, and nothing
// that differs each time.
func TestCause(t *testing.T) {
	server := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443}
	reset := func(port int) error {
		return fmt.Errorf("apply: %w", &url.Error{Op: "Patch", URL: "https://x?timeout=4.2s", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: server, Err: errors.New("connection reset by peer"),
		}})
	}
	stream := func(id int) error {
		return &url.Error{Op: "Patch", URL: "https://x", Err: fmt.Errorf("stream error: stream ID %d; INTERNAL_ERROR", id)}
	}
	for want, both := range map[string][2]error{
		"read tcp 10.0.0.1:6443: connection reset by peer": {reset(1), reset(2)},
		"stream error: INTERNAL_ERROR":                     {stream(1), stream(45)},
		"refused":                                          {errors.New("refused"), errors.New("refused")},
	} {
		for _, err := range both {
			if got := Cause(err); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}

func TestImmutable(t *testing.T) {
	for _, message := range []string{
		`Invalid value: {"app":"x"}: field is immutable`,
		"Forbidden: field is immutable when `immutable` is set",
		"Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
		"Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
		"Forbidden: updates to parameters are forbidden.",
		"Invalid value: [\"10.0.0.1\"]: may not change once set",
		"Invalid value: 7: may not be changed in an update.",
		"Invalid value: cannot change roleRef",
		"Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
		"Invalid value: field cannot be modified once set",
		"Invalid value: Value is immutable",
	} {
		if !Immutable(invalid("Required value", message)) {
			t.Errorf("not recognised: %s", message)
		}
	}
	for _, err := range []error{
		invalid("Invalid value: -1: must be greater than or equal to 0"), invalid("Required value"), invalid(),
		apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("is immutable")), errors.New("immutable"), nil,
	} {
		if Immutable(err) {
			t.Errorf("taken for a field that can't change: %v", err)
		}
	}
}
