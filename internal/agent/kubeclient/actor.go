package kubeclient

import (
	"context"
	"errors"
	"strings"
)

// actorKey is where a context has whose name requests are made in.
type actorKey struct{}

// As has all requests of a context made in the name of a ServiceAccount, NAMESPACE/NAME;
// empty: in the agent's own. It is of the context, and not of a request, so that a turn
// for an object of which a ServiceAccount is in charge can't make one that is not.
func As(ctx context.Context, account string) context.Context {
	return context.WithValue(ctx, actorKey{}, account)
}

// actor is the user in whose name the requests of a context are made; empty: the agent.
func actor(ctx context.Context) string {
	account, _ := ctx.Value(actorKey{}).(string)
	if account == "" {
		return ""
	}
	// An account without a name, which no hub sends, is nobody, and is refused everything.
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
