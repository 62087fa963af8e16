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
}

// ListSome returns the JSON of the first objects of a selection. It fails if they have more than
// someAnswer bytes.
func ListSome(ctx context.Context, t *Client, p Place, s Selection) ([]string, error) {
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
	body, err := t.read(ctx, r)
	if err != nil {
		return nil, err
	}
	page, err := decode[ownership.Answer](body)
	if err != nil {
		return nil, r.decoded(err)
	}
	texts := make([]string, 0, min(len(page.Items), s.Most))
	for i := range page.Items[:min(len(page.Items), s.Most)] {
		texts = append(texts, page.Items[i].JSON)
	}
	return texts, nil
}
