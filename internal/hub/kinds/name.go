package kinds

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckName returns an error, with the message of Kubernetes, for a name that can't be a segment of a
// path. Kinds may have further rules for names.
func CheckName(name string) error {
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return nil
}

// CheckKind returns an error for an invalid name of a kind.
func CheckKind(kind string) error {
	if problems := validation.IsDNS1035Label(strings.ToLower(kind)); len(problems) > 0 {
		return fmt.Errorf("kind %q: %s", kind, strings.Join(problems, "; "))
	}
	return nil
}
