// Package auth says who sends a request and whether they may: authentication,
// authorization, impersonation, and reviews that clients ask for about themselves. It
// goes by what a request is about (its root and its RequestInfo), with the filters of
// k8s.io/apiserver.
//
// It must never know how a request is served.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/auth/oidc"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Config is what a Guard needs.
type Config struct {
	// Authority signs the certificates of users.
	Authority *enroll.Authority
	// Enrolments authenticate agents.
	Enrolments *Enrolments
	// Table has the Grants, and Grants observes it.
	Table  *table.Table
	Grants *Grants
	// Catalog has the kinds of a space.
	Catalog func(key.Space) *kinds.Catalog
	// Committed waits until the table shows what was acknowledged to anybody before the
	// call. What is refused by the table as it was is judged once more behind that.
	Committed func(context.Context) error
	// Allowed says what the exports of a shelf let be done with a resource in a space; nil:
	// everything. It is asked for reviews: a request is answered by who serves it.
	Allowed Allowed
	// Issuers know people by the tokens of others; nil: there are none.
	Issuers *oidc.Issuers
	// Audit sees requests, let in or not; nil: nobody does.
	Audit Audit
	// Codecs encode refusals.
	Codecs runtime.NegotiatedSerializer
	// Logger gets unauthenticated requests, at level debug.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Allowed says whether a verb may be used on a resource of a space, or of AllSpaces, on a
// shelf: because it is exported, or because the verb is claimed.
type Allowed func(f key.Shelf, s key.Space, r key.Resource, verb string) bool

// Audit sees requests. What it returns serves them by what it is given.
type Audit interface {
	// Admitted sees requests of users who are known, before they act as somebody else.
	Admitted(next http.Handler) http.Handler
	// Refused sees requests that are answered 401.
	Refused(failed http.Handler) http.Handler
}

// Guard authenticates and authorizes requests. It is safe for concurrent use.
type Guard struct {
	config        Config
	authenticator authenticator.Request
	authorizer    *Authorizer
	fresh         *fresh
}

// New makes a Guard.
func New(config Config) *Guard {
	fresh := newFresh(config.Committed)
	return &Guard{
		config:        config,
		authenticator: authentication(&config, fresh),
		authorizer:    &Authorizer{grants: config.Grants, table: config.Table, catalog: config.Catalog},
		fresh:         fresh,
	}
}

// Authorizer is for what a handler finds to decide later, such as an update that creates.
func (g *Guard) Authorizer() *Authorizer { return g.authorizer }

// Handler passes on to next the requests of authenticated clients that are authorized,
// and refuses the others. The context of a request must have its RequestInfo and root
// (WithRoot). Next finds in it the user, who may be impersonated, and what the access
// rests on (PremisesOf).
func (g *Guard) Handler(next http.Handler) http.Handler {
	next = filters.WithAuthorization(next, authorizer.AuthorizerFunc(g.authorize), g.config.Codecs)
	next = respond.Shallow(g.impersonating(next), lasts)
	if g.config.Audit != nil {
		next = g.config.Audit.Admitted(next)
	}
	return g.authenticated(next)
}

// lasts says that a request is served for as long as its client likes: a watch, or the session
// of an agent.
func lasts(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	if ok && info.IsResourceRequest && info.Verb == "watch" {
		return true
	}
	_, call := route.Of(r.URL.Path)
	return RootOf(r.Context()).API == route.Agents && call == route.Desired && r.Method == http.MethodGet
}

// refuse answers a request of nobody who is known.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.config.Logger.Debug("unauthenticated request", "path", r.URL.Path, "error", err)
	var answer http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		responsewriters.ErrorNegotiated(asUnauthorized(err, RootOf(r.Context())), g.config.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	})
	if g.config.Audit != nil {
		answer = g.config.Audit.Refused(answer)
	}
	answer.ServeHTTP(w, r)
}

// authorize decides about a request, and once more before it is refused: what was
// granted just now counts.
func (g *Guard) authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if why, is := outside(ctx, a.GetPath()); is {
		return authorizer.DecisionDeny, why, nil
	}
	if _, ok := route.Token(a.GetPath()); ok && !a.IsResourceRequest() && RootOf(ctx) == (route.Root{}) {
		return authorizer.DecisionAllow, "", nil // whose tokens they are is for the handler to see
	}
	decision, why, err := g.authorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionAllow || err != nil {
		return decision, why, err
	}
	if err := g.fresh.wait(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("wait for what was granted: %w", err)
	}
	return g.authorizer.Authorize(ctx, a)
}

func (g *Guard) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := withPremises(r.Context())
		r = r.WithContext(ctx)
		response, ok, err := g.authenticate(w, r)
		if err != nil || !ok {
			g.refuse(w, r, err)
			return
		}
		r.Header.Del("Authorization")
		r.Body = body{r.Body, ctx, g.config.Table, g.config.Now}
		showing(ctx, func(c *Credential) { c.User = response.User })
		ctx = respond.WithRequester(ctx, respond.Requester{Name: cmp.Or(CredentialOf(ctx).payer, response.User.GetName()), Operator: g.authorizer.mayAll(response.User)})
		ctx, cancel := lasting(ctx, r, g.config.Now())
		defer respond.After(ctx, cancel)
		next.ServeHTTP(w, r.WithContext(request.WithUser(ctx, response.User)))
	})
}

// May says whether who sends the request of a context may do something with an object of
// a space, or, if it has no name, with those of its kind and namespace.
func (g *Guard) May(ctx context.Context, verb string, o key.Object) bool {
	return g.MaySub(ctx, verb, o, "")
}

// MaySub is May of a subresource; empty: of the object itself.
func (g *Guard) MaySub(ctx context.Context, verb string, o key.Object, sub string) bool {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	q := about(verb, o.APIGroup(), o.Resource.Resource, sub, o.Namespace, o.Name)
	if !g.authorizer.mayAll(who) {
		_, ok = g.authorizer.inSpace(o.Space, who, &q)
	}
	return ok
}

// authenticate says who sends a request. Who shows what only agents have is one, or nobody.
func (g *Guard) authenticate(w http.ResponseWriter, r *http.Request) (*authenticator.Response, bool, error) {
	if g.config.Enrolments != nil {
		response, renew, ok, err := g.config.Enrolments.authenticate(r)
		if renew {
			w.Header().Set(wire.RenewHeader, "now")
		}
		if ok || err != nil {
			return response, ok, err
		}
	}
	return g.authenticator.AuthenticateRequest(r)
}

// asUnauthorized is what somebody is told who is not known. An agent hears why, since it
// may be able to help itself.
func asUnauthorized(err error, root route.Root) error {
	var refused refusedError
	switch {
	case errors.As(err, &refused) && refused.cause != "":
		return refused
	case root.API == route.Agents && err == nil:
		return refusalOf(errNothing)
	}
	return apierrors.NewUnauthorized(toldOf(err))
}

type rootKey struct{}

// WithRoot puts the API that a request is for into its context, see RootOf. For the
// APIs of Kubernetes it also strips the root from the path.
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

// RootOf is the API that the request of a context is for, as WithRoot put it there.
func RootOf(ctx context.Context) route.Root {
	root, _ := ctx.Value(rootKey{}).(route.Root)
	return root
}
