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

// Credential is the credential of a request.
type Credential struct {
	// User is the user of the credential; a request may impersonate another user.
	User user.Info
	// Token is the ID of the token; "" for other credentials.
	Token string
	// Until is when the credential expires; zero for never.
	Until time.Time
	// Scope is the limit of the credential; nil for none.
	Scope *bearer.Scope
	// payer is charged for requests, if it is not the user: the owners of a space can create any
	// number of users by tokens and certificates of the space.
	payer string
	// agent is the credential of an agent; nil for others and for long-lived tokens.
	agent *enroll.Credential
}

// CredentialOf returns the credential of a request.
func CredentialOf(ctx context.Context) Credential {
	l, ok := ctx.Value(letInKey{}).(*letIn)
	if !ok {
		return Credential{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.credential
}

// recordCredential records the credential of a request in its context.
func recordCredential(ctx context.Context, record func(*Credential)) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		record(&l.credential)
	}
}

// during makes the streams of a request end with another context.
func during(ctx, other context.Context) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.during = other
	}
}

// errCredentialEnded is the reason for the end of a stream.
var errCredentialEnded = errors.New("the credential that it was opened with has ended")

// lasting returns the context of an authorized request. If the request may be a stream, the context
// ends at the latest with the credential. The caller must call cancel.
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

// lived is a context that ends with one context, and has the values of another. The first does not
// keep a reference to these values.
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

// limit limits a credential to one space, if that space is still the one that the credential was
// created for.
func limit(ctx context.Context, t *table.Table, scope *bearer.Scope) error {
	if scope == nil {
		return nil
	}
	if scope.Space != key.Root {
		isMet := func(row *table.Row) bool { return row != nil && row.Meta.UID == scope.UID }
		if row, _ := t.Get(scope.Space.Key()); !isMet(row) {
			return toldError(fmt.Sprintf("the credential is for a space %q that is gone", scope.Space))
		}
		restOn(ctx, table.Condition{Key: scope.Space.Key(), IsMet: isMet})
	}
	recordCredential(ctx, func(c *Credential) { c.Scope, c.payer = scope, "space "+string(scope.Space) })
	return nil
}

// outside reports whether a request is outside the limit of its credential. Requests for tokens are
// not: tokens that a user creates with such a credential have the same limit.
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
	if f, _, ok := root.ExportView(); ok && f.Space == scope.Space { // a right there is a right in the provider's space
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

// toldError is the reason why a credential is not accepted, for the client. Clients do not see
// other errors.
type toldError string

// Error implements error.
func (e toldError) Error() string { return string(e) }

// toldOf returns the error for a client that is refused.
func toldOf(err error) string {
	if refusal, ok := errors.AsType[toldError](err); ok {
		return string(refusal)
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

// unauthorized is the error for a client without a credential, or with an unknown one.
const unauthorized = "Unauthorized"
