package auth

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// impersonating serves requests as whom their headers name, for those who may act as
// them. The library's filter remembers for a while whom it let do so, also once what
// allowed it is gone; so each such request, of which there are few, has a filter of its own.
func (g *Guard) impersonating(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asksToImpersonate(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		if who, ok := request.UserFrom(r.Context()); !ok || !g.authorizer.mayAll(who) {
			// Which of the ways to ask for it is refused says nothing yet, so that a refusal
			// is not judged twice here.
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
