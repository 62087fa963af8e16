package kubeclient

import (
	"errors"
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
