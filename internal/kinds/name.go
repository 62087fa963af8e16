package kinds

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// CheckName refuses a name that can't be a segment of a path, in the words of Kubernetes'
// registries. Kinds may have further rules for names.
func CheckName(name string) error {
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return nil
}
