package auth

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// impersonating serves requests with the user in their headers, if the authenticated user may
// impersonate it. The library's filter caches its decisions, even after a Grant is revoked. Each
// such request, of which there are few, therefore has its own filter.
func (g *Guard) impersonating(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asksToImpersonate(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		if who, ok := request.UserFrom(r.Context()); !ok || !g.authorizer.mayAll(who) {
			// The form of impersonation that is refused first is not final, so the refusal is not
			// decided twice here.
			if err := g.fresh.wait(r.Context()); err != nil {
				responsewriters.InternalError(w, r, err)
				return
			}
		}
		impersonation.WithConstrainedImpersonation(next, g.authorizer, g.config.Codecs).ServeHTTP(w, r)
	})
}

func asksToImpersonate(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}
