package auth

import (
	"context"
	"net/http"

	"orrery.dev/orrery/internal/protocol/route"
)

type rootKey struct{}

// WithRoot adds the API of a request to its context, see RootOf. For Kubernetes APIs it also
// removes the root from the path.
func WithRoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, rest := route.Parse(r.URL.Path)
		r = r.WithContext(context.WithValue(r.Context(), rootKey{}, root))
		if root.Kubernetes() {
			u := *r.URL
			u.Path, u.RawPath = "/"+rest, ""
			r.URL = &u
		}
		next.ServeHTTP(w, r)
	})
}

// RootOf returns the API of a request, as set by WithRoot.
func RootOf(ctx context.Context) route.Root {
	root, _ := ctx.Value(rootKey{}).(route.Root)
	return root
}
