package kinds

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// CheckName refuses a name that is no segment of a path, in the words of
// Kubernetes' registries; nil if it is one. Whether it is one of a kind's names
// is for the kind to say.
func CheckName(name string) error {
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return nil
}
