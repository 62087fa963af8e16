package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/agent/kubeclient"
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

// TestAnnotationsMeasured: the explanation has the sizes of the annotations, of those of Orrery, and of the excess.
func TestAnnotationsMeasured(t *testing.T) {
	if maxAnnotations != validation.TotalAnnotationSizeLimitB {
		t.Errorf("the limit is %d, want %d", maxAnnotations, validation.TotalAnnotationSizeLimitB)
	}
	with := func(annotations map[string]string) []byte {
		b, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	refusal := func(annotations map[string]string) error {
		errs := validation.ValidateAnnotations(annotations, field.NewPath("metadata", "annotations"))
		if len(errs) == 0 {
			t.Fatal("the annotations are not too long")
		}
		return fmt.Errorf("apply: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", errs))
	}
	const user = maxAnnotations - 100
	text := strings.Repeat("\u00e4", (user-1)/2) + "x" // two bytes in each character
	for name, c := range map[string]struct {
		sent map[string]string
		want []string
	}{
		"of the object": {
			map[string]string{"a": text, "orrery.dev/x": strings.Repeat("y", 188)},
			[]string{"have 262244 bytes, 100 more than the 262144", "own annotations count, too, and have 200 bytes", "by at least 100 bytes", ": m"},
		},
		"of other writers": {
			map[string]string{"a": text, "orrery.dev/x": "y"},
			[]string{"have 262057 bytes, and those of other writers", "own annotations count, too, and have 13 bytes", "remove annotations at the location", ": m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			there := map[string]string{"other": strings.Repeat("z", 200)}
			maps.Copy(there, c.sent)
			err := measured(refusal(there), with(c.sent), with(map[string]string{"a": text}))
			got := explained("m", fmt.Errorf("apply: %w", err))
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q lacks %q", got, want)
				}
			}
			if kubeclient.StatusOf(err) == nil {
				t.Error("the error has lost the answer of the API server")
			}
		})
	}
	if err := errors.New("no answer"); !errors.Is(measured(err, nil, nil), err) {
		t.Error("another error changes")
	}
	if measured(nil, nil, nil) != nil {
		t.Error("no error becomes one")
	}
}
