package kubeclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// someAnswer bounds the response of ListSome, in bytes.
const someAnswer = 8 << 20

// Selection selects objects of a list.
type Selection struct {
	// Namespace, Labels and Fields select objects; empty: all.
	Namespace, Labels, Fields string
	// Most is the maximum number of objects.
	Most int
	// Continue is the continue token of the page before; empty: the selection begins.
	Continue string
}

// ListSome returns the JSON of the first objects of a selection, and the continue token of the objects after them; it is
// empty if there are none. It fails if the objects have more than someAnswer bytes.
func ListSome(ctx context.Context, t *Client, p Place, s Selection) (texts []string, more string, err error) {
	r := request{
		verb: "list", method: http.MethodGet, path: p.collection(s.Namespace), accept: fullAnswer, most: someAnswer,
		query: url.Values{"limit": {strconv.Itoa(s.Most)}},
	}
	if s.Labels != "" {
		r.query.Set("labelSelector", s.Labels)
	}
	if s.Fields != "" {
		r.query.Set("fieldSelector", s.Fields)
	}
	if s.Continue != "" {
		r.query.Set("continue", s.Continue)
	}
	body, err := t.read(ctx, r)
	if err != nil {
		return nil, "", err
	}
	page, err := decode[ownership.Answer](body)
	if err != nil {
		return nil, "", r.decoded(err)
	}
	texts = make([]string, 0, min(len(page.Items), s.Most))
	for i := range page.Items[:min(len(page.Items), s.Most)] {
		texts = append(texts, page.Items[i].JSON)
	}
	return texts, page.more, nil
}
