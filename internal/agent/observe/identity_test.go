package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
)

// namespaceServer is an API server that has Namespaces, of which some may not be read, and no Leases.
type namespaceServer struct {
	mu        sync.Mutex
	uids      map[string]string
	forbidden map[string]bool
}

// ServeHTTP implements http.Handler.
func (s *namespaceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := path.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"details":{"kind":"namespaces","name":%q}}`, code, reason, name)
	}
	switch {
	case name == "leases":
		_, _ = fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	case s.forbidden[name]:
		refuse(http.StatusForbidden, "Forbidden")
	case s.uids[name] == "":
		refuse(http.StatusNotFound, "NotFound")
	default:
		_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"uid":%q}}`, name, s.uids[name])
	}
}

// TestIdentityOfForbiddenCluster follows what the agent takes for the identity of a cluster while it may not read the
// Namespace kube-system: another one whose UID it knows, and otherwise nothing, which is no proof.
func TestIdentityOfForbiddenCluster(t *testing.T) {
	server := &namespaceServer{}
	cluster := httptest.NewServer(server)
	defer cluster.Close()
	target, err := kubeclient.New(&rest.Config{Host: cluster.URL}, "test", 1, func(string, int) {}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	type uids = map[string]string
	type names = map[string]bool
	first, rebuilt := uids{"kube-system": "k1", "default": "d1"}, uids{"kube-system": "k2", "default": "d2"}
	type step struct {
		uids      uids
		forbidden names
		unproven  bool
		replaced  bool
	}
	for name, steps := range map[string][]step{
		"default proves it": {
			{uids: first}, {uids: first, forbidden: names{"kube-system": true}}, {uids: rebuilt, forbidden: names{"kube-system": true}, replaced: true},
			{uids: rebuilt, forbidden: names{"kube-system": true}}, {uids: rebuilt},
		},
		"kube-system becomes readable at another cluster": {
			{uids: first, forbidden: names{"kube-system": true}}, {uids: rebuilt, replaced: true}, {uids: rebuilt}, {uids: rebuilt, forbidden: names{"kube-system": true}},
		},
		"nothing proves it": {
			{uids: first}, {uids: first, forbidden: names{"kube-system": true, "default": true}, unproven: true},
			{uids: rebuilt, forbidden: names{"kube-system": true, "default": true}, unproven: true},
			{uids: rebuilt, replaced: true}, {uids: rebuilt},
		},
		"never readable": {
			{uids: first, forbidden: names{"kube-system": true, "default": true}, unproven: true}, {uids: first},
		},
		"what is unproven is not learned": {
			{uids: first, forbidden: names{"default": true}}, {uids: rebuilt, forbidden: names{"kube-system": true}, unproven: true},
			{uids: rebuilt, forbidden: names{"kube-system": true}, unproven: true}, {uids: rebuilt, replaced: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(t.TempDir(), "paris", nil, quiet)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { st.Run(ctx) })
			defer func() {
				cancel()
				running.Wait()
				_ = st.Close()
			}()
			e := worklist.New()
			defer e.Stop()
			i := NewIdentity(e, st, target, quiet)
			for n, step := range steps {
				server.mu.Lock()
				server.uids, server.forbidden = step.uids, step.forbidden
				server.mu.Unlock()
				before := st.Meta().Cluster
				err := i.Confirm(ctx)
				if errors.Is(err, errUnproven) != step.unproven || err != nil && !step.unproven {
					t.Errorf("step %d: error %v", n, err)
				}
				after := st.Meta().Cluster
				if replaced := after.UID != before.UID && before.UID != "" || after.Others["default"] != before.Others["default"] && before.Others["default"] != ""; replaced != step.replaced {
					t.Errorf("step %d: the cluster was %+v and is %+v", n, before, after)
				}
			}
		})
	}
}
