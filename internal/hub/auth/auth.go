// Package auth authenticates and authorizes requests, including impersonation and the reviews of
// clients about their own rights. It decides by the root and the RequestInfo of a request, with the
// filters of k8s.io/apiserver.
//
// It must not depend on the handlers of requests.
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

// Config configures a Guard.
type Config struct {
	// Authority signs the certificates of users.
	Authority *enroll.Authority
	// Enrolments authenticate agents.
	Enrolments *Enrolments
	// Table contains the Grants, and Grants observes it.
	Table  *table.Table
	Grants *Grants
	// Catalog returns the kinds of a space.
	Catalog func(key.Space) *kinds.Catalog
	// Committed waits until the table contains all earlier writes. A request that the table refuses
	// is decided again after that.
	Committed func(context.Context) error
	// Allowed reports which verbs an export view allows; nil allows all. It is used for reviews:
	// for requests, their handler decides.
	Allowed Allowed
	// Issuers authenticate users by tokens of OIDC issuers; nil if there are none.
	Issuers *oidc.Issuers
	// Audit logs all requests, authorized or not; nil for no log.
	Audit Audit
	// Codecs encode refusals.
	Codecs runtime.NegotiatedSerializer
	// Logger logs unauthenticated requests at level debug.
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Allowed reports whether a verb is allowed on a resource of a space, or of AllSpaces, in an export
// view: the resource is exported, or the verb is claimed.
type Allowed func(f key.ExportView, s key.Space, r key.Resource, verb string) bool

// Audit wraps handlers to log requests.
type Audit interface {
	// Admitted logs requests of authenticated users, before impersonation.
	Admitted(next http.Handler) http.Handler
	// Refused logs requests that are answered with 401.
	Refused(failed http.Handler) http.Handler
}

// Guard authenticates and authorizes requests. It is safe for concurrent use.
type Guard struct {
	config        Config
	authenticator authenticator.Request
	authorizer    *Authorizer
	fresh         *fresh
}

// New returns a Guard.
func New(config Config) *Guard {
	fresh := newFresh(config.Committed)
	return &Guard{
		config:        config,
		authenticator: authentication(&config, fresh),
		authorizer:    &Authorizer{grants: config.Grants, table: config.Table, catalog: config.Catalog},
		fresh:         fresh,
	}
}

// Authorizer returns the authorizer for later decisions of handlers, such as for an update that
// creates.
func (g *Guard) Authorizer() *Authorizer { return g.authorizer }

// Handler passes authorized requests of authenticated clients to next, and refuses all others. The
// context of a request must have its RequestInfo and root (WithRoot). For next it contains the
// user, the users that it may impersonate, and the stream conditions of the access (ConditionsOf).
func (g *Guard) Handler(next http.Handler) http.Handler {
	next = explainingDiscovery(filters.WithAuthorization(next, authorizer.AuthorizerFunc(g.authorize), g.config.Codecs))
	next = respond.Shallow(g.impersonating(next), lasts)
	if g.config.Audit != nil {
		next = g.config.Audit.Admitted(next)
	}
	return g.authenticated(next)
}

// lasts reports whether a request lasts as long as its client likes: a watch, or the session of an
// agent.
func lasts(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	if ok && info.IsResourceRequest && info.Verb == "watch" {
		return true
	}
	_, call := route.Parse(r.URL.Path)
	return RootOf(r.Context()).API == route.Agents && call == route.Desired && r.Method == http.MethodGet
}

// refuse responds to an unauthenticated request.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.config.Logger.Debug("unauthenticated request", "path", r.URL.Path, "error", err)
	var answer http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		explainUnauthenticated(w, RootOf(r.Context()), err)
		responsewriters.ErrorNegotiated(asUnauthorized(err, RootOf(r.Context())), g.config.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	})
	if g.config.Audit != nil {
		answer = g.config.Audit.Refused(answer)
	}
	answer.ServeHTTP(w, r)
}

// authorize decides about a request, and again before refusing it, so that a recent Grant counts.
func (g *Guard) authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if why, is := outside(ctx, a.GetPath()); is {
		explainForbidden(ctx, a, why)
		return authorizer.DecisionDeny, why, nil
	}
	if _, ok := route.Token(a.GetPath()); ok && !a.IsResourceRequest() && RootOf(ctx) == (route.Root{}) {
		return authorizer.DecisionAllow, "", nil // the handler checks the owner of the tokens
	}
	decision, why, err := g.authorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionAllow || err != nil {
		return decision, why, err
	}
	if err := g.fresh.wait(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("wait for what was granted: %w", err)
	}
	decision, why, err = g.authorizer.Authorize(ctx, a)
	if decision != authorizer.DecisionAllow && err == nil {
		explainForbidden(ctx, a, why)
	}
	return decision, why, err
}

func (g *Guard) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := withConditions(r.Context())
		r = r.WithContext(ctx)
		response, ok, err := g.authenticate(w, r)
		if err != nil || !ok {
			g.refuse(w, r, err)
			return
		}
		r.Header.Del("Authorization")
		r.Body = body{r.Body, ctx, g.config.Table, g.config.Now}
		recordCredential(ctx, func(c *Credential) { c.User = response.User })
		ctx = respond.WithRequester(ctx, respond.Requester{Name: cmp.Or(CredentialOf(ctx).payer, response.User.GetName()), Operator: g.authorizer.mayAll(response.User)})
		ctx, cancel := lasting(ctx, r, g.config.Now())
		defer respond.After(ctx, cancel)
		next.ServeHTTP(w, r.WithContext(request.WithUser(ctx, response.User)))
	})
}

// May reports whether the user of a request may use a verb on an object of a space or, if it has no
// name, on all objects of its kind and namespace.
func (g *Guard) May(ctx context.Context, verb string, o key.Object) bool {
	return g.MaySub(ctx, verb, o, "")
}

// MaySub is May for a subresource; empty for the object itself.
func (g *Guard) MaySub(ctx context.Context, verb string, o key.Object, sub string) bool {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	q := newQuestion(verb, o.APIGroup(), o.Resource.Resource, sub, o.Namespace, o.Name)
	if !g.authorizer.mayAll(who) {
		_, ok = g.authorizer.inSpace(o.Space, who, &q)
	}
	return ok
}

// authenticate returns the user of a request. A request with agent credentials is authenticated as
// an agent or rejected.
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

// asUnauthorized returns the error for an unauthenticated client. An agent gets the reason, since
// it may be able to recover.
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
