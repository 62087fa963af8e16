package mapper

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"orrery.dev/orrery/internal/mapper/marks"
)

const (
	listPage = 500
	// smallerPage divides the size of a page that is too large to be read.
	smallerPage = 4
)

// Errors of answers that make no sense. They are about what was asked for, not about
// the target as a whole.
var (
	errAnswer   = errors.New("decode answer")
	errTooLarge = fmt.Errorf("%w: it has more than %d MiB", errAnswer, maxAnswer>>20)
)

// page is one page of a list.
type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []marks.Observation `json:"items"`
}

// list reads one page.
func (t *target) list(ctx context.Context, p place, namespace string, query url.Values, full bool) (page, error) {
	accept := smallList
	if full {
		accept = fullAnswer
	}
	var l page
	err := t.do(ctx, request{
		verb: "list", method: http.MethodGet, path: p.collection(namespace), query: query, accept: accept,
	}, &l)
	return l, err
}

// pages reads a list page by page, in smaller pages if one is too large, until show
// has seen enough of it. It returns the revision that the target gives the list.
func (t *target) pages(ctx context.Context, p place, namespace string, query url.Values, full bool, show func(*page) (more bool, err error)) (revision string, err error) {
	for size := listPage; ; {
		query.Set("limit", strconv.Itoa(size))
		l, err := t.list(ctx, p, namespace, query, full)
		if errors.Is(err, errTooLarge) && size > 1 {
			size = max(1, size/smallerPage)
			continue
		}
		if err != nil {
			return "", err
		}
		if more, err := show(&l); err != nil || !more || l.Metadata.Continue == "" {
			return l.Metadata.ResourceVersion, err
		}
		query.Set("continue", l.Metadata.Continue)
	}
}
