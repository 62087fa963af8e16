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
	// listPage is the number of objects in a page of metadata, fullPage in a page of whole
	// objects. At its start an agent needs most of its memory for the page that it reads.
	listPage, fullPage = 500, 100
	// smallerPage divides the limit of a page that was too large.
	smallerPage = 4
	// aheadMost is the maximum size, in bytes, of a page that is decoded while the next one is requested.
	aheadMost = 4 << 20
)

// Errors of responses that cannot be decoded. They concern the request, not the target as a
// whole.
var (
	// ErrAnswer is returned when a response cannot be decoded.
	ErrAnswer   = errors.New("decode answer")
	errTooLarge = fmt.Errorf("%w: it has more than %d MiB", ErrAnswer, maxAnswer>>20)
)

// PageOf is one page of a list.
type PageOf[T any] struct {
	// revision is the list's resourceVersion, and more the continue token of the next page;
	// more is empty on the last page.
	revision, more string
	Items          []T
}

// Page is one page of a list, with the fields that the agent reads of most objects.
type Page = PageOf[ownership.Observation]

// Revision returns the list's revision, which is the same on all its pages.
func (p *PageOf[T]) Revision() string { return p.revision }

// More reports whether there is another page after this one.
func (p *PageOf[T]) More() bool { return p.more != "" }

// item is an element of a page.
type item[T any] interface {
	*T
	Read(from gjson.Result)
}

// decode reads a page in one pass, where encoding/json would scan each object three times. It
// rejects ambiguous JSON: objects missing from a list would be considered deleted.
func decode[T any, I item[T]](b []byte) (p PageOf[T], err error) {
	root, err := ownership.Parse(b)
	if err != nil {
		return p, err
	}
	members, err := membersOf(root, "kind", "metadata", "items")
	if err != nil {
		return p, err
	}
	if _, ok := members["items"]; !ok && !strings.HasSuffix(members["kind"].Str, "List") { // some servers omit the items of an empty list
		return p, fmt.Errorf("an answer of kind %q without items is no list", members["kind"].Str)
	}
	if p.revision, p.more, err = listMeta(members["metadata"]); err != nil {
		return p, err
	}
	switch items := members["items"]; {
	case items.IsArray():
		items.ForEach(func(_, v gjson.Result) bool {
			p.Items = append(p.Items, *new(T))
			I(&p.Items[len(p.Items)-1]).Read(v)
			return true
		})
	case items.Type != gjson.Null: // API servers send null for an empty list
		return p, errors.New("the items of the list are not a JSON array")
	}
	return p, nil
}

// listMeta returns the revision and the continue token in a list's metadata.
func listMeta(metadata gjson.Result) (revision, more string, err error) {
	if metadata.Type == gjson.Null {
		return "", "", nil
	}
	members, err := membersOf(metadata, "resourceVersion", "continue")
	if err != nil {
		return "", "", err
	}
	for name, v := range members {
		if v.Type != gjson.String && v.Type != gjson.Null {
			return "", "", fmt.Errorf("the %s of the list is not a string", name)
		}
	}
	return strings.Clone(members["resourceVersion"].Str), strings.Clone(members["continue"].Str), nil
}

// membersOf returns the members of an object with the given names, regardless of case. It
// fails if a name occurs twice.
func membersOf(object gjson.Result, names ...string) (map[string]gjson.Result, error) {
	if !object.IsObject() {
		return nil, errors.New("not a JSON object")
	}
	members, twice := map[string]gjson.Result{}, ""
	object.ForEach(func(k, v gjson.Result) bool {
		for _, name := range names {
			if !strings.EqualFold(k.Str, name) {
				continue
			}
			if _, ok := members[name]; ok {
				twice = name
			}
			members[name] = v
		}
		return twice == ""
	})
	if twice != "" {
		return nil, fmt.Errorf("the object has %s twice", twice)
	}
	return members, nil
}

// ahead returns the continue token of a page that is not decoded yet; empty if there is none or it cannot be read.
func ahead(page []byte) string {
	_, more, err := listMeta(gjson.GetBytes(page, "metadata"))
	if err != nil {
		return ""
	}
	return more
}

// Pages lists the objects that match a label selector (empty: all) in a namespace (empty:
// all), and calls show with each page until show returns false. A page that is too large is
// requested again with fewer objects. full requests whole objects instead of metadata. Pages
// returns the list's revision.
func (t *Client) Pages(ctx context.Context, p Place, namespace, labels string, full bool, show func(*Page) (more bool, err error)) (revision string, err error) {
	return pages[ownership.Observation](ctx, t, p, namespace, labels, full, show)
}

// PagesAll is Pages for all objects; it passes whole objects, or all of their metadata unless
// full is set.
func (t *Client) PagesAll(ctx context.Context, p Place, full bool, show func([]ownership.Answer) error) (revision string, err error) {
	return pages[ownership.Answer](ctx, t, p, "", "", full, func(l *PageOf[ownership.Answer]) (bool, error) { return true, show(l.Items) })
}

// pages reads the pages of a list one after the other. A caller that reads a second page probably
// reads all. So from the second page on, the next page is requested while a page is decoded and
// shown, unless that page is large or has whole objects, which may be large.
func pages[T any, I item[T]](
	ctx context.Context, t *Client, p Place, namespace, labels string, full bool, show func(*PageOf[T]) (more bool, err error),
) (revision string, err error) {
	a := listRequest{Client: t, request: request{verb: "list", method: http.MethodGet, path: p.collection(namespace), accept: smallList}, labels: labels, size: listPage}
	if full {
		a.accept, a.size = fullAnswer, fullPage
	}
	ctx, cancel := context.WithCancel(ctx)
	var next chan answer // nil if the next page is not requested yet
	defer cancel()       // cancels the request for a page that is not needed
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
		if wanted, err := show(&l); err != nil || !wanted || !l.More() {
			return l.revision, err
		}
		more, first = l.more, false
	}
}

// listRequest is the common part of the requests for the pages of a list.
type listRequest struct {
	*Client
	request
	labels string
	size   int
}

// answer is the response to a request for a page.
type answer struct {
	body []byte
	err  error
}

// page requests a page; more is its continue token, empty for the first page.
func (a *listRequest) page(ctx context.Context, more string) chan answer {
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
