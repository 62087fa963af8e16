package kubeclient

import (
	"context"
	"errors"
	"strings"
)

// actorKey is the context key of the impersonated ServiceAccount.
type actorKey struct{}

// As returns a context whose requests impersonate a ServiceAccount, NAMESPACE/NAME; if it is
// empty, they use the agent's own rights. The account belongs to the context, not to a request,
// so that no request for an object with an account can be sent with the agent's rights.
func As(ctx context.Context, account string) context.Context {
	return context.WithValue(ctx, actorKey{}, account)
}

// actor returns the user that the requests of a context impersonate; empty for the agent.
func actor(ctx context.Context) string {
	account, _ := ctx.Value(actorKey{}).(string)
	if account == "" {
		return ""
	}
	// No hub sends an account without a name; its user has no rights.
	namespace, name, _ := strings.Cut(account, "/")
	return "system:serviceaccount:" + namespace + ":" + name
}

// ErrReadOnly is returned for a request that would change the target and whose context is ReadOnly.
var ErrReadOnly = errors.New("nothing may be changed at the cluster now")

type readOnlyKey struct{}

// ReadOnly returns a context whose requests read, or are dry runs, while is returns true. Each other
// request then returns ErrReadOnly and is not sent. is may be called from any goroutine.
func ReadOnly(ctx context.Context, is func() bool) context.Context {
	return context.WithValue(ctx, readOnlyKey{}, is)
}

// isReadOnly reports whether the context is ReadOnly now.
func isReadOnly(ctx context.Context) bool {
	is, ok := ctx.Value(readOnlyKey{}).(func() bool)
	return ok && is()
}
