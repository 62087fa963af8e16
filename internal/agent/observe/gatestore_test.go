package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// apiServer answers discovery from memory, as an API server does whether or not its etcd answers.
type apiServer struct {
	mu       sync.Mutex
	lost     bool // its etcd does not answer
	requests []string
	watch    *io.PipeWriter
}

// RoundTrip implements http.RoundTripper.
func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		body, w := io.Pipe()
		a.watch = w
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	}
	a.requests = append(a.requests, r.URL.Path)
	body := map[string]string{
		"/api":                           `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis":                          `{"kind":"APIGroupList","groups":[{"name":"apps"}]}`,
		"/api/v1/namespaces/kube-system": `{"kind":"Namespace","metadata":{"name":"kube-system","uid":"u","resourceVersion":"1"}}`,
	}[r.URL.Path]
	if strings.HasPrefix(r.URL.Path, "/api/v1/") && a.lost {
		return nil, errors.New("no answer")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// taken returns the requests since the last time.
func (a *apiServer) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.requests
	a.requests = nil
	return all
}

func (a *apiServer) lose(lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = lost
}

// TestGateReadsFromTheStore shows that an API server that has lost its etcd counts as unavailable, though it goes
// on sending bookmarks, and that bookmarks with later revisions save the requests that find it out.
func TestGateReadsFromTheStore(t *testing.T) { synctest.Test(t, gateReadsFromTheStore) }

func gateReadsFromTheStore(t *testing.T) {
	server := &apiServer{}
	target, err := kubeclient.New(&rest.Config{Host: "http://target", Transport: server}, "test", 1, func(string, int) {}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(worklist.New(), target, quiet)
	read := []string{"/api/v1/namespaces/kube-system"}
	g.Identity = func(ctx context.Context) error {
		_, err := target.Get(ctx, kubeclient.Namespaces, kubeSystem)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx) })
	running.Go(func() {
		_, err := target.Watch(ctx, kubeclient.Place{Resource: key.NewResource("", "configmaps"), Version: "v1"}, "", "1", false,
			func(*ownership.Answer, bool) error { return nil })
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	if got := server.taken(); !slices.Equal(got, append([]string{"/api", "/apis"}, read...)) {
		t.Errorf("at the start: %v", got)
	}
	bookmark := func(revision int) {
		retry.Pause(t.Context(), time.Minute)
		if _, err := fmt.Fprintf(server.watch, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", revision); err != nil {
			t.Error(err)
		}
	}
	is := func(when string, want wire.ClusterState) {
		t.Helper()
		synctest.Wait()
		if got := g.Cluster(); got.State != want {
			t.Errorf("%s: %+v, want %s", when, got, want)
		}
	}
	revision := 1
	for range 60 {
		revision++
		bookmark(revision)
	}
	is("revisions grow", wire.ClusterAvailable)
	if got := server.taken(); len(got) > 0 {
		t.Errorf("while revisions grow: %v", got)
	}
	for range 60 {
		bookmark(revision)
	}
	is("nothing is written", wire.ClusterAvailable)
	if got := server.taken(); len(got) != 20 || !slices.Equal(slices.Compact(got), read) {
		t.Errorf("in an hour in which nothing is written: %v, want 20 of %v", got, read)
	}
	server.lose(true)
	for range 4 {
		bookmark(revision)
	}
	is("its etcd does not answer", wire.ClusterUnavailable)
	server.lose(false)
	bookmark(revision)
	is("its etcd answers again", wire.ClusterAvailable)
	cancel()
	if err := server.watch.Close(); err != nil {
		t.Error(err)
	}
	running.Wait()
}
