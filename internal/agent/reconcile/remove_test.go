package reconcile

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestVerifyKind shows when an object is gone whose kind the target does not serve: with its CustomResourceDefinition,
// also if another one has its name, with another scope; never with an API service.
func TestVerifyKind(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	odds := key.NewResource("odd.example", "odds")
	namespaced, cluster := key.Identity{Resource: odds, Namespace: "n", Name: "a"}, key.Identity{Resource: odds, Name: "a"}
	for name, c := range map[string]struct {
		id         key.Identity
		scope      string // of the definition; empty: there is none
		aggregated bool
		served     bool
		gone       bool
		message    string
	}{
		"same scope":             {id: namespaced, scope: "Namespaced"},
		"other scope":            {id: namespaced, scope: "Cluster", gone: true},
		"same scope, cluster":    {id: cluster, scope: "Cluster"},
		"other scope, cluster":   {id: cluster, scope: "Namespaced", gone: true},
		"no definition":          {id: namespaced, gone: true},
		"no definition, served":  {id: namespaced, served: true},
		"of an aggregated API":   {id: namespaced, aggregated: true, message: "may still be there"},
		"aggregated, definition": {id: namespaced, aggregated: true, scope: "Namespaced"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions/odds.odd.example") && c.scope != "":
					_, _ = fmt.Fprintf(w, `{"kind":"CustomResourceDefinition","metadata":{"name":"odds.odd.example"},"spec":{"scope":%q}}`, c.scope)
				case r.URL.Path == "/apis" && c.served:
					_, _ = fmt.Fprint(w, `{"groups":[{"name":"odd.example","versions":[{"groupVersion":"odd.example/v1"}],"preferredVersion":{"groupVersion":"odd.example/v1"}}]}`)
				case r.URL.Path == "/apis":
					_, _ = fmt.Fprint(w, `{"groups":[{"name":"apps"}]}`)
				case r.URL.Path == "/apis/odd.example/v1":
					_, _ = fmt.Fprint(w, `{"resources":[{"name":"odds","kind":"Odd","namespaced":true}]}`)
				default:
					w.WriteHeader(http.StatusNotFound)
					_, _ = fmt.Fprint(w, `{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{"kind":"customresourcedefinitions","name":"odds.odd.example"}}`)
				}
			}))
			defer server.Close()
			target, err := kubeclient.New(&rest.Config{Host: server.URL}, "test", 1, func(string, int) {}, quiet)
			if err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(t.TempDir(), "paris", nil, quiet)
			if err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			done := make(chan struct{})
			running.Go(func() {
				defer close(done)
				if err := st.Write(t.Context(), func(x *store.Tx) error {
					x.Target.SetAggregated(odds, c.aggregated)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
			st.Run(endsWith(t, done))
			running.Wait()
			defer func() { _ = st.Close() }()
			r := &remover{target: target, users: &users{target: target, store: st}, log: quiet}
			o, err := r.verifyKind(t.Context(), &turn{id: c.id, view: worklist.View{}, record: recordOf("s", "u", "x")})
			if err != nil {
				t.Fatal(err)
			}
			if o.forget != c.gone || !c.gone && (o.State != wire.Removing || o.Reason != v1alpha1.ReasonNoSuchResource || !strings.Contains(o.Message, c.message)) {
				t.Errorf("the outcome is %+v, want that it is gone: %v, and a message with %q", o, c.gone, c.message)
			}
		})
	}
}
