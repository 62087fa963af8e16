package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestAnnotationsTooLong: a refusal for the size of all annotations explains that those of Orrery count.
func TestAnnotationsTooLong(t *testing.T) {
	path := field.NewPath("metadata", "annotations")
	tooLong := validation.ValidateAnnotations(map[string]string{"a": strings.Repeat("x", validation.TotalAnnotationSizeLimitB)}, path)
	for want, errs := range map[bool]field.ErrorList{
		true:  tooLong,
		false: {field.Invalid(path, "x", "another fault"), field.TooLong(field.NewPath("metadata", "name"), "x", 1)},
	} {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", errs)
		if got := explained("m", fmt.Errorf("apply: %w", err)); strings.Contains(got, "Orrery's own annotations") != want || !strings.Contains(got, "m") {
			t.Errorf("%v: %q", err, got)
		}
	}
	if got := explained("m", errors.New("no answer")); got != "m" {
		t.Errorf("without an answer: %q", got)
	}
}
