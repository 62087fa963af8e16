package respond_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/routine"

	"orrery.dev/orrery/internal/respond"
)

// TestShallow: a watch is served when the handlers that let it in have returned, and what
// they do afterwards follows it, whatever becomes of it.
func TestShallow(t *testing.T) {
	for name, c := range map[string]struct {
		verb string
		ends func()
		want string
	}{
		"a list":           {"list", func() {}, "served after returned"},
		"a watch":          {"watch", func() {}, "returned served after"},
		"one that panics":  {"watch", func() { panic(http.ErrAbortHandler) }, "returned served after panicked"},
		"one not let in":   {"watch", nil, "after returned"},
		"no verb is known": {"", func() {}, "served after returned"},
	} {
		t.Run(name, func(t *testing.T) {
			var done []string
			note := func(what string) { done = append(done, what) }
			inner := func(_ http.ResponseWriter, r *http.Request) {
				defer respond.After(r.Context(), func() { note("after") })
				if c.ends == nil {
					return
				}
				serve := func() { note("served"); c.ends() }
				if task := routine.TaskFrom(r.Context()); task != nil { // as handlers of watches do
					task.Func = serve
					return
				}
				serve()
			}
			handler := respond.Shallow(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inner(w, r)
				note("returned")
			}))
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if c.verb != "" {
				r = r.WithContext(request.WithRequestInfo(context.Background(), &request.RequestInfo{IsResourceRequest: true, Verb: c.verb}))
			}
			func() {
				defer func() {
					if recover() != nil {
						note("panicked")
					}
				}()
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}()
			if !slices.Equal(done, strings.Fields(c.want)) {
				t.Errorf("%q, want %s", done, c.want)
			}
		})
	}
}
