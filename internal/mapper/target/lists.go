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
	// listPage is how many objects a page has, fullPage if they are whole: most of what an
	// agent has in memory at its start is the page that it reads.
	listPage, fullPage = 500, 100
	// smallerPage divides the limit of a page that was too large.
	smallerPage = 4
)

// Errors of answers that can't be read. They are about the request, not about the target
// as a whole.
var (
	// ErrAnswer says that an answer could not be decoded.
	ErrAnswer   = errors.New("decode answer")
	errTooLarge = fmt.Errorf("%w: it has more than %d MiB", ErrAnswer, maxAnswer>>20)
)

// PageOf is one page of a list.
type PageOf[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// Page is one page of a list, of what the agent reads of most objects.
type Page = PageOf[marks.Observation]

// More says that there is another page after it.
func (p *PageOf[T]) More() bool { return p.Metadata.Continue != "" }

// list reads one page.
func list[T any](ctx context.Context, t *Client, p Place, namespace string, query url.Values, full bool) (PageOf[T], error) {
	accept := smallList
	if full {
		accept = fullAnswer
	}
	var l PageOf[T]
	err := t.do(ctx, request{
		verb: "list", method: http.MethodGet, path: p.collection(namespace), query: query, accept: accept,
	}, &l)
	return l, err
}

// Pages lists the objects with the given labels (a selector; empty: all) in a namespace
// (empty: all), and calls show with each page until that returns false. Pages that are
// too large are read in smaller ones. full asks for whole objects instead of metadata. It
// returns the list's revision.
func (t *Client) Pages(ctx context.Context, p Place, namespace, labels string, full bool, show func(*Page) (more bool, err error)) (revision string, err error) {
	return pages(ctx, t, p, namespace, labels, full, show)
}

// PagesAll is Pages of all objects that passes on whole objects, or, unless full, all of their
// metadata.
func (t *Client) PagesAll(ctx context.Context, p Place, full bool, show func([]marks.Answer) error) (revision string, err error) {
	return pages(ctx, t, p, "", "", full, func(l *PageOf[marks.Answer]) (bool, error) { return true, show(l.Items) })
}

func pages[T any](ctx context.Context, t *Client, p Place, namespace, labels string, full bool, show func(*PageOf[T]) (more bool, err error)) (revision string, err error) {
	query := url.Values{}
	if labels != "" {
		query.Set("labelSelector", labels)
	}
	size := listPage
	if full {
		size = fullPage
	}
	for {
		query.Set("limit", strconv.Itoa(size))
		l, err := list[T](ctx, t, p, namespace, query, full)
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
