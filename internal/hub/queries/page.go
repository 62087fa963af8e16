package queries

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"orrery.dev/orrery/internal/hub/respond"
)

// page is the requested page of objects: about limit objects (0 for all), from the path in the
// continue token on.
type page struct {
	limit int
	// from is the path at which the page begins: among placed objects or, if left is set, among
	// objects that are no longer assigned.
	from string
	left bool
}

// pageOf parses the parameters limit and continue.
func pageOf(query url.Values) (p page, err error) {
	if text := query.Get("limit"); text != "" {
		if p.limit, err = strconv.Atoi(text); err != nil || p.limit < 0 {
			return p, respond.BadRequest("limit %q: want a number of objects", text)
		}
	}
	token := query.Get("continue")
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	kind, from, ok := strings.Cut(string(text), ":")
	if err != nil || !ok || from == "" || kind != "placed" && kind != "left" {
		return p, respond.BadRequest("continue %q: not what an answer has named", token)
	}
	p.from, p.left = from, kind == "left"
	return p, nil
}

// first reports whether it is the first page.
func (p page) first() bool { return p.from == "" }

// token returns the continue token for a path.
func token(left bool, path string) string {
	kind := "placed"
	if left {
		kind = "left"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + path))
}
