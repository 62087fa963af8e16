package respond

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/server/routine"
)

// Shallow serves long requests, such as watches, on the stack of its caller, after next has
// prepared the response in a separate goroutine. Otherwise the stack frames of all handlers would
// stay in memory as long as the request, which is several times the size. Handlers in next use
// After for work at the end of the request. Their contexts must not end before that. Within another
// Shallow it has no effect.
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

// prepare lets next prepare the response.
func prepare(next http.Handler, w http.ResponseWriter, r *http.Request) *routine.Task {
	task := &routine.Task{}
	r = r.WithContext(routine.WithTask(context.WithValue(r.Context(), bareKey{}, r.Context()), task))
	_ = Aside(func() error { // f returns no error
		next.ServeHTTP(w, r)
		return nil
	})
	return task
}

// Aside calls f in a separate goroutine, and panics if f does. The stack of the caller does not
// grow.
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

// forget releases the content of a request after all handlers have read it. For HTTP/2, net/http
// keeps the request until it is served, and reads the method.
func forget(r *http.Request) {
	if r.ProtoMajor == 2 {
		r.URL, r.Header = nil, nil
	}
}

type bareKey struct{}

// Bare returns the context of a request without the values that handlers have added; ctx itself if
// Shallow does not serve the request. Objects that live as long as the request use it, so that
// these values can be released.
func Bare(ctx context.Context) context.Context {
	if bare, ok := ctx.Value(bareKey{}).(context.Context); ok {
		return bare
	}
	return ctx
}

// Serve serves the request of a context by f: immediately or, inside Shallow, when Shallow serves
// it. K8s.io/apiserver does the same for its watches.
func Serve(ctx context.Context, f func()) {
	if task := routine.TaskFrom(ctx); task != nil {
		task.Func = f
		return
	}
	f()
}

// After calls f when the request of a context has been served: immediately or, inside Shallow, at
// the end of the request.
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
