package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// listPage is how many objects a page has, fullPage if they are whole: most of what an
	// agent has in memory at its start is the page that it reads.
	listPage, fullPage = 500, 100
	// smallerPage divides the limit of a page that was too large.
	smallerPage = 4
	// aheadMost is how many bytes a page may have for the next one to be asked for meanwhile.
	aheadMost = 4 << 20
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
	// revision is the list's, more names the page after this one; empty: this is the last.
	revision, more string
	Items          []T
}

// Page is one page of a list, of what the agent reads of most objects.
type Page = PageOf[ownership.Observation]

// Revision is the list's revision, which is the same on all its pages.
func (p *PageOf[T]) Revision() string { return p.revision }

// More says that there is another page after it.
func (p *PageOf[T]) More() bool { return p.more != "" }

// item is what a page has.
type item[T any] interface {
	*T
	Read(from gjson.Result)
}

// decode reads a page in one pass, where encoding/json would scan each object three times. It
// refuses what may be read in two ways: by a list that is taken for shorter than it is, objects
// would be gone.
func decode[T any, I item[T]](b []byte) (p PageOf[T], err error) {
	root, err := ownership.Parse(b)
	if err != nil {
		return p, err
	}
	of, err := membersOf(root, "kind", "metadata", "items")
	if err != nil {
		return p, err
	}
	if _, ok := of["items"]; !ok && !strings.HasSuffix(of["kind"].Str, "List") { // some servers leave out items of an empty list
		return p, fmt.Errorf("an answer of kind %q without items is no list", of["kind"].Str)
	}
	if p.revision, p.more, err = listMeta(of["metadata"]); err != nil {
		return p, err
	}
	switch items := of["items"]; {
	case items.IsArray():
		items.ForEach(func(_, v gjson.Result) bool {
			p.Items = append(p.Items, *new(T))
			I(&p.Items[len(p.Items)-1]).Read(v)
			return true
		})
	case items.Type != gjson.Null: // which an API server answers where there is none
		return p, errors.New("the items of a list are none")
	}
	return p, nil
}

// listMeta reads a list's revision, and what names the page after it, of the list's metadata.
func listMeta(metadata gjson.Result) (revision, more string, err error) {
	if metadata.Type == gjson.Null {
		return "", "", nil
	}
	of, err := membersOf(metadata, "resourceVersion", "continue")
	if err != nil {
		return "", "", err
	}
	for name, v := range of {
		if v.Type != gjson.String && v.Type != gjson.Null {
			return "", "", fmt.Errorf("a list's %s is no text", name)
		}
	}
	return strings.Clone(of["resourceVersion"].Str), strings.Clone(of["continue"].Str), nil
}

// membersOf are some members of an object, each of which it may have once, whether its name is
// written in small letters or not.
func membersOf(object gjson.Result, names ...string) (map[string]gjson.Result, error) {
	if !object.IsObject() {
		return nil, errors.New("not a JSON object")
	}
	of, twice := map[string]gjson.Result{}, ""
	object.ForEach(func(k, v gjson.Result) bool {
		for _, name := range names {
			if !strings.EqualFold(k.Str, name) {
				continue
			}
			if _, ok := of[name]; ok {
				twice = name
			}
			of[name] = v
		}
		return twice == ""
	})
	if twice != "" {
		return nil, fmt.Errorf("%s is there twice", twice)
	}
	return of, nil
}

// ahead is what names the page after one that has not been decoded yet; empty: there is none, or it is not known.
func ahead(page []byte) string {
	_, more, err := listMeta(gjson.GetBytes(page, "metadata"))
	if err != nil {
		return ""
	}
	return more
}

// Pages lists the objects with the given labels (a selector; empty: all) in a namespace
// (empty: all), and calls show with each page until that returns false. Pages that are
// too large are read in smaller ones. full asks for whole objects instead of metadata. It
// returns the list's revision.
func (t *Client) Pages(ctx context.Context, p Place, namespace, labels string, full bool, show func(*Page) (more bool, err error)) (revision string, err error) {
	return pages[ownership.Observation](ctx, t, p, namespace, labels, full, show)
}

// PagesAll is Pages of all objects that passes on whole objects, or, unless full, all of their
// metadata.
func (t *Client) PagesAll(ctx context.Context, p Place, full bool, show func([]ownership.Answer) error) (revision string, err error) {
	return pages[ownership.Answer](ctx, t, p, "", "", full, func(l *PageOf[ownership.Answer]) (bool, error) { return true, show(l.Items) })
}

// pages reads the pages of a list one after the other. Who reads on after the first probably reads
// all, so from then on a page is asked for while the one before it is decoded and shown, unless that
// is large, or has whole objects, which may be.
func pages[T any, I item[T]](
	ctx context.Context, t *Client, p Place, namespace, labels string, full bool, show func(*PageOf[T]) (more bool, err error),
) (revision string, err error) {
	a := ask{Client: t, request: request{verb: "list", method: http.MethodGet, path: p.collection(namespace), accept: smallList}, labels: labels, size: listPage}
	if full {
		a.accept, a.size = fullAnswer, fullPage
	}
	ctx, cancel := context.WithCancel(ctx)
	var next chan answer // nil: it has not been asked for
	defer cancel()       // of one that was asked for and is not wanted
	for more, first := "", true; ; {
		if next == nil {
			next = a.page(ctx, more)
		}
		got := <-next
		next = nil
		if errors.Is(got.err, errTooLarge) && a.size > 1 {
			a.size = max(1, a.size/smallerPage)
			continue
		}
		if got.err != nil {
			return "", got.err
		}
		if !first && !full && len(got.body) <= aheadMost {
			if name := ahead(got.body); name != "" {
				next = a.page(ctx, name)
			}
		}
		l, err := decode[T, I](got.body)
		if err != nil {
			return "", a.decoded(err)
		}
		if on, err := show(&l); err != nil || !on || !l.More() {
			return l.revision, err
		}
		more, first = l.more, false
	}
}

// ask is what is asked for in each request of a list.
type ask struct {
	*Client
	request
	labels string
	size   int
}

// answer is that to a request for a page.
type answer struct {
	body []byte
	err  error
}

// page asks for a page; more is how the one before it names it.
func (a *ask) page(ctx context.Context, more string) chan answer {
	r := a.request
	r.query = url.Values{"limit": {strconv.Itoa(a.size)}}
	if a.labels != "" {
		r.query.Set("labelSelector", a.labels)
	}
	if more != "" {
		r.query.Set("continue", more)
	}
	got := make(chan answer, 1)
	go func() {
		body, err := a.read(ctx, r)
		got <- answer{body, err}
	}()
	return got
}
