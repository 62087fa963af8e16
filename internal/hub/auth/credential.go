package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Credential is what a request was sent with.
type Credential struct {
	// User is whose it is; a request may act as somebody else.
	User user.Info
	// Token is the ID of the token; "" if it is something else.
	Token string
	// Until is when it ends; zero: it has no end.
	Until time.Time
	// Scope is what it is limited to; nil: nothing.
	Scope *bearer.Scope
	// payer is charged for requests, if that is not the user: the owners of a space can make as many users
	// by tokens and certificates of the space as they like.
	payer string
	// agent is that of an agent; nil: it is something else, or lasts.
	agent *enroll.Credential
}

// CredentialOf is what the request of a context was sent with.
func CredentialOf(ctx context.Context) Credential {
	l, ok := ctx.Value(letInKey{}).(*letIn)
	if !ok {
		return Credential{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.credential
}

// showing notes of the request of a context with what it was sent.
func showing(ctx context.Context, note func(*Credential)) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		note(&l.credential)
	}
}

// during has the streams of a request end with another context.
func during(ctx, other context.Context) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.during = other
	}
}

// errCredentialEnded says why a stream ends.
var errCredentialEnded = errors.New("the credential that it was opened with has ended")

// lasting returns the context of a request that has been let in. If it may be a stream,
// the context ends with the request's credential at the latest. The caller must call
// cancel.
func lasting(ctx context.Context, r *http.Request, now time.Time) (_ context.Context, cancel func()) {
	cancel = func() {}
	l, ok := ctx.Value(letInKey{}).(*letIn)
	info, known := request.RequestInfoFrom(ctx)
	if !ok || r.Method != http.MethodGet || known && info.IsResourceRequest && info.Verb != "watch" {
		return ctx, cancel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	life := respond.Bare(ctx)
	if !l.credential.Until.IsZero() {
		life, cancel = context.WithTimeoutCause(life, l.credential.Until.Sub(now), errCredentialEnded)
	}
	if l.during != nil {
		inner, end := context.WithCancelCause(life)
		before, stop := cancel, context.AfterFunc(l.during, func() { end(errCredentialEnded) })
		life, cancel = inner, func() { stop(); end(nil); before() }
	}
	return lived{life, ctx}, cancel
}

// lived is a context that ends as one does, and has the values of another, which that one does
// not keep.
type lived struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (l lived) Value(k any) any {
	if v := l.Context.Value(k); v != nil {
		return v
	}
	return l.values.Value(k)
}

// limit has a credential be good for one space, if that is still the one that it was made
// for.
func limit(ctx context.Context, t *table.Table, scope *bearer.Scope) error {
	if scope == nil {
		return nil
	}
	if scope.Space != key.Root {
		holds := func(row *table.Row) bool { return row != nil && row.Meta.UID == scope.UID }
		if row, _ := t.Get(scope.Space.Key()); !holds(row) {
			return toldError(fmt.Sprintf("the credential is for a space %q that is gone", scope.Space))
		}
		restOn(ctx, table.Premise{Key: scope.Space.Key(), Holds: holds})
	}
	showing(ctx, func(c *Credential) { c.Scope, c.payer = scope, "space "+string(scope.Space) })
	return nil
}

// outside says that a request is about something else than what its credential is limited
// to. Tokens are not: whoever makes some by such a credential has them limited, too.
func outside(ctx context.Context, path string) (why string, is bool) {
	return outsideOf(CredentialOf(ctx).Scope, RootOf(ctx), path)
}

func outsideOf(scope *bearer.Scope, root route.Root, path string) (why string, is bool) {
	if scope == nil {
		return "", false
	}
	if s, _, ok := root.Reported(); ok && s == scope.Space {
		return "", false
	}
	if f, _, ok := root.Shelf(); ok && f.Space == scope.Space { // who has a right there has it in the provider's space
		return "", false
	}
	switch root {
	case route.Space(scope.Space), route.Question(scope.Space):
		return "", false
	case route.Root{}:
		if _, ok := route.Token(path); ok {
			return "", false
		}
	}
	return fmt.Sprintf("the credential is for space %q alone", scope.Space), true
}

// toldError says, for whoever showed a credential, why it is not accepted. Other errors
// are not for them to see.
type toldError string

// Error implements error.
func (e toldError) Error() string { return string(e) }

// toldOf is what a client is told of why it is refused.
func toldOf(err error) string {
	if told, ok := errors.AsType[toldError](err); ok {
		return string(told)
	}
	var several interface{ Errors() []error } // of several authenticators
	if errors.As(err, &several) {
		for _, one := range several.Errors() {
			if text := toldOf(one); text != unauthorized {
				return text
			}
		}
	}
	return unauthorized
}

// unauthorized is what a client is told that shows nothing, or something nobody knows.
const unauthorized = "Unauthorized"
