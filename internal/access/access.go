// Package access says who sends a request and whether they may: the hub's
// authentication, its authorizer, acting as somebody else, and what clients ask
// about themselves. It goes by what a request is about (its root and its
// RequestInfo), with the filters of k8s.io/apiserver.
//
// It must never know how a request is served.
package access

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/table"
)

// Config is what access is decided by.
type Config struct {
	// Authority has signed the certificates of people.
	Authority *enroll.Authority
	// Table has the hashes of the locations' tokens.
	Table *table.Table
	// Codecs encode what is refused.
	Codecs runtime.NegotiatedSerializer
	// Logger hears of who is not known.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Guard lets requests through to those who may send them. It is safe for
// concurrent use.
type Guard struct {
	config        Config
	authenticator authenticator.Request
	authorizer    Authorizer
}

// New makes a Guard.
func New(config Config) *Guard {
	return &Guard{config: config, authenticator: authentication(config.Authority, config.Table, config.Now)}
}

// Authorizer decides about what a request goes on to do, such as an update that creates.
func (g *Guard) Authorizer() Authorizer { return g.authorizer }

// Handler serves requests with next whose RequestInfo and root are in their context:
// those of known clients that may send them. Next finds there whom they are to be
// served as, and by PremisesOf what let them in.
func (g *Guard) Handler(next http.Handler) http.Handler {
	next = filters.WithAuthorization(next, g.authorizer, g.config.Codecs)
	next = impersonation.WithConstrainedImpersonation(next, g.authorizer, g.config.Codecs)
	return g.authenticated(next)
}

func (g *Guard) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := withPremises(r.Context())
		r = r.WithContext(ctx)
		response, ok, err := g.authenticator.AuthenticateRequest(r)
		if err != nil || !ok {
			g.config.Logger.Debug("unauthenticated request", "path", r.URL.Path, "error", err)
			responsewriters.ErrorNegotiated(apierrors.NewUnauthorized("Unauthorized"), g.config.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r.WithContext(request.WithUser(ctx, response.User)))
	})
}

type rootKey struct{}

// WithRoot has next find in the context which API a request is for. One of
// Kubernetes begins below its root.
func WithRoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, rest := route.Of(r.URL.Path)
		r = r.WithContext(context.WithValue(r.Context(), rootKey{}, root))
		if root.Kubernetes() {
			u := *r.URL
			u.Path, u.RawPath = "/"+rest, ""
			r.URL = &u
		}
		next.ServeHTTP(w, r)
	})
}

// RootOf is the API that a request is for.
func RootOf(ctx context.Context) route.Root {
	root, _ := ctx.Value(rootKey{}).(route.Root)
	return root
}
