package target

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
	ErrAnswer   = errors.New("decode answer")
	errTooLarge = fmt.Errorf("%w: it has more than %d MiB", ErrAnswer, maxAnswer>>20)
)

// Page is one page of a list.
type Page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []marks.Observation `json:"items"`
}

// More says that there is another page after it.
func (p *Page) More() bool { return p.Metadata.Continue != "" }

// list reads one page.
func (t *Client) list(ctx context.Context, p Place, namespace string, query url.Values, full bool) (Page, error) {
	accept := smallList
	if full {
		accept = fullAnswer
	}
	var l Page
	err := t.do(ctx, request{
		verb: "list", method: http.MethodGet, path: p.collection(namespace), query: query, accept: accept,
	}, &l)
	return l, err
}

// Pages reads what a selector finds, empty for all, page by page, in smaller pages if one is too large, until show
// has seen enough of it. It returns the revision that the target gives the list.
func (t *Client) Pages(ctx context.Context, p Place, namespace, labels string, full bool, show func(*Page) (more bool, err error)) (revision string, err error) {
	query := url.Values{}
	if labels != "" {
		query.Set("labelSelector", labels)
	}
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
		if more, err := show(&l); err != nil || !more || !l.More() {
			return l.Metadata.ResourceVersion, err
		}
		query.Set("continue", l.Metadata.Continue)
	}
}
