package respond

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/routine"
)

// Shallow serves watches from the stack that it is called on, once next has found out in a
// goroutine of its own what there is to serve: a watch would otherwise keep, for as long as it
// lasts, the frames of all handlers that have let it in, which is twice the stack. What a
// handler within does when a request has been served, it does by After. The contexts that
// they make must not end before that either.
func Shallow(next http.Handler) http.Handler {
	return routine.WithRoutine(next, func(_ *http.Request, info *request.RequestInfo) bool {
		return info != nil && info.IsResourceRequest && info.Verb == "watch"
	})
}

// After calls f when the request of a context has been served: at once or, if it is a watch
// that Shallow is about to serve, at its end.
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
