package respond

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/server/routine"
)

// Shallow serves what lasts, such as a watch, from the stack that it is called on, once next has
// found out in a goroutine of its own what there is to serve: it would otherwise keep, for as
// long as it lasts, the frames of all handlers that have let it in, which is several times the stack.
// What a handler within does when a request has been served, it does by After. The contexts
// that they make must not end before that either. Within another Shallow it does nothing.
func Shallow(next http.Handler, lasts func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if routine.TaskFrom(r.Context()) != nil || !lasts(r) {
			next.ServeHTTP(w, r)
			return
		}
		if task := prepare(next, w, r); task.Func != nil {
			forget(r)
			task.Func()
		}
	})
}

// prepare has next find out what there is to serve.
func prepare(next http.Handler, w http.ResponseWriter, r *http.Request) *routine.Task {
	task := &routine.Task{}
	r = r.WithContext(routine.WithTask(context.WithValue(r.Context(), bareKey{}, r.Context()), task))
	_ = Aside(func() error { // there is no error
		next.ServeHTTP(w, r)
		return nil
	})
	return task
}

// Aside calls f in a goroutine of its own, and panics if it does: who calls it keeps a stack
// that is no larger than before.
func Aside(f func() error) error {
	ended := make(chan any, 1)
	var err error
	go func() {
		defer func() { ended <- recover() }()
		err = f()
	}()
	if p := <-ended; p != nil {
		panic(p)
	}
	return err
}

// forget lets go of what a request has said, once everybody has read it. Of a request by
// HTTP/2, net/http holds all until it has been served, and looks at the method.
func forget(r *http.Request) {
	if r.ProtoMajor == 2 {
		r.URL, r.Header = nil, nil
	}
}

type bareKey struct{}

// Bare is the context of a request without what handlers have put into it since; it is the one
// that is given if Shallow serves nothing of it. What lasts as long as the request does, and
// hangs on that one, does not keep what they have put there.
func Bare(ctx context.Context) context.Context {
	if bare, ok := ctx.Value(bareKey{}).(context.Context); ok {
		return bare
	}
	return ctx
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
