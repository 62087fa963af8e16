package read

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// tooLarge returns the error of a list whose objects must be decoded and are too large together.
func tooLarge(size, limit int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the list has %d bytes, more than the %d that are served at once if they have to be converted: ask for pages with limit, or for JSON of the version that is stored", size, limit))
}

// totalSize returns the stored bytes of objects.
func totalSize(items []*object) (n int) {
	for _, o := range items {
		n += len(o.row.Value)
		if composed, ok := o.row.In.(*reported); ok && composed.source != nil {
			n += len(composed.source.Value)
		}
	}
	return n
}
