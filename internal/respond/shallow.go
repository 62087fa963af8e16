package respond

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/routine"
)

// Shallow serves what lasts, such as a watch, from the stack that it is called on, once next has
// found out in a goroutine of its own what there is to serve: it would otherwise keep, for as
// long as it lasts, the frames of all handlers that have let it in, which is twice the stack.
// What a handler within does when a request has been served, it does by After. The contexts
// that they make must not end before that either.
func Shallow(next http.Handler, lasts func(*http.Request) bool) http.Handler {
	return routine.WithRoutine(next, func(r *http.Request, _ *request.RequestInfo) bool { return lasts(r) })
}

// Serve has the request of a context served by f: at once or, if Shallow is about to, by that.
// K8s.io/apiserver does the same of its watches.
func Serve(ctx context.Context, f func()) {
	if task := routine.TaskFrom(ctx); task != nil {
		task.Func = f
		return
	}
	f()
}

// After calls f when the request of a context has been served: at once or, if Shallow is about
// to serve it, at its end.
func After(ctx context.Context, f func()) {
	task := routine.TaskFrom(ctx)
	if task == nil || task.Func == nil {
		f()
		return
	}
	serve := task.Func
	task.Func = func() {
		defer f()
		serve()
	}
}
