package respond_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/respond"
)

// TestShallow: a watch is served after its handlers have returned, and their deferred work runs
// after the watch in all cases.
func TestShallow(t *testing.T) {
	for name, c := range map[string]struct {
		lasts bool
		ends  func()
		want  string
	}{
		"a list":          {false, func() {}, "served after returned"},
		"a watch":         {true, func() {}, "returned served after"},
		"one that panics": {true, func() { panic(http.ErrAbortHandler) }, "returned served after panicked"},
		"one not let in":  {true, nil, "after returned"},
	} {
		t.Run(name, func(t *testing.T) {
			var done []string
			record := func(what string) { done = append(done, what) }
			inner := func(_ http.ResponseWriter, r *http.Request) {
				defer respond.After(r.Context(), func() { record("after") })
				if c.ends == nil {
					return
				}
				respond.Serve(r.Context(), func() { record("served"); c.ends() })
			}
			handler := respond.Shallow(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inner(w, r)
				record("returned")
			}), func(*http.Request) bool { return c.lasts })
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			func() {
				defer func() {
					if recover() != nil {
						record("panicked")
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

// TestShallowForgets: a long request releases the context values of its handlers and, for HTTP/2,
// the content of the request.
func TestShallowForgets(t *testing.T) {
	type key struct{}
	served := false
	within := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if respond.Bare(r.Context()).Value(key{}) != nil || r.Context().Value(key{}) == nil {
			t.Error("the bare context of a request is not the one that it came with")
		}
		respond.Serve(r.Context(), func() { served = true })
	})
	putting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "value")))
	})
	always := func(*http.Request) bool { return true }
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.ProtoMajor = 2
	respond.Shallow(respond.Shallow(putting, always), always).ServeHTTP(httptest.NewRecorder(), r)
	if !served || r.URL != nil || r.Header != nil {
		t.Errorf("served %t, and the request has %v %v", served, r.URL, r.Header)
	}
	if ctx := t.Context(); respond.Bare(ctx) != ctx {
		t.Error("a context that nobody serves from has another bare one")
	}
}
