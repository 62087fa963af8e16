package life

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

const (
	// soon is how long a change may take to be seen on a busy machine.
	soon = env.Soon

	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asApply = "application/apply-patch+yaml"

	spaces     = "/spaces/root/apis/orrery.dev/v1alpha1/spaces"
	configMaps = "/api/v1/namespaces/default/configmaps"
	crds       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	gadgets    = "/apis/example.org/v1/namespaces/default/gadgets"
)

// api is a Kubernetes API, and a client that sends requests exactly as given. It is safe for
// concurrent use.
type api struct {
	t    *testing.T
	host string // https://HOST:PORT
	root string // the path of the API
	http *http.Client
	// idle closes connections that are not used now.
	idle func()
}

// newAPI returns a client with connections of its own. If dial is nil, it uses the default.
func newAPI(t *testing.T, c *rest.Config, http2 bool, dial func(context.Context, string, string) (net.Conn, error)) *api {
	t.Helper()
	tls, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 64, DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	wrapped, err := rest.HTTPWrappersForConfig(c, transport)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(c.Host)
	if err != nil {
		t.Fatal(err)
	}
	return &api{t: t, host: "https://" + u.Host, root: strings.TrimRight(u.Path, "/"), idle: transport.CloseIdleConnections, http: &http.Client{
		Transport:     wrapped,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answer is a response.
type answer struct {
	code int
	raw  []byte
}

func (a answer) field(path string) gjson.Result { return gjson.GetBytes(a.raw, path) }

func (a answer) String() string { return fmt.Sprintf("%d %.2000s", a.code, a.raw) }

// is fails the test unless the answer has a code.
func (a answer) is(t *testing.T, code int, what string) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("%s: got %s, want %d", what, a, code)
	}
	return a
}

// open sends a request, with the path exactly as given. The caller closes the body of the response.
func (a *api) open(ctx context.Context, method, path, content, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.host, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL.Opaque, req.URL.RawQuery, _ = strings.Cut(a.root+path, "?")
	req.Header.Set("Accept", asJSON)
	if content != "" {
		req.Header.Set("Content-Type", content)
	}
	if accept, ok := ctx.Value(acceptKey{}).(string); ok {
		req.Header.Set("Accept", accept)
	}
	return a.http.Do(req)
}

// acceptKey is the context key of the Accept header of a request.
type acceptKey struct{}

// request sends a request and returns the complete response.
func (a *api) request(ctx context.Context, method, path, content, body string) (answer, error) {
	resp, err := a.open(ctx, method, path, content, body)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, raw}, err
}

// do sends a request, and fails the test unless it is answered.
func (a *api) do(method, path, content, body string) answer {
	a.t.Helper()
	got, err := a.request(a.t.Context(), method, path, content, body)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (a *api) get(path string) answer { a.t.Helper(); return a.do(http.MethodGet, path, "", "") }

func (a *api) post(path, body string) answer {
	a.t.Helper()
	return a.do(http.MethodPost, path, asJSON, body)
}

func (a *api) patch(path, body string) answer {
	a.t.Helper()
	return a.do(http.MethodPatch, path, asMerge, body)
}

func (a *api) delete(path string) answer { a.t.Helper(); return a.do(http.MethodDelete, path, "", "") }

// many does n things, several at a time; the first error fails the test.
func many(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	const atATime = 16
	var next atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for range atATime {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// must sends a request from any goroutine, and returns an error unless the response has the code.
func (a *api) must(ctx context.Context, code int, method, path, content, body string) error {
	got, err := a.request(ctx, method, path, content, body)
	if err == nil && got.code != code {
		err = fmt.Errorf("%s %s: got %s, want %d", method, path, got, code)
	}
	return err
}

// hub is a hub process, a client of its log if the test has access to it, and a client of all its
// APIs.
type hub struct {
	*env.Hub
	*api
	etcd *clientv3.Client
}

// startHub starts a hub whose log is in an etcd that the test can read.
func startHub(t *testing.T, args ...string) *hub {
	t.Helper()
	return startHubAt(t, env.StartEtcd(t), args...)
}

// startHubAt starts a hub whose log is in an etcd.
func startHubAt(t *testing.T, etcd *env.Etcd, args ...string) *hub {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	h := hubAt(t, env.StartHub(t, append(args, "--etcd-servers", etcd.URL)...))
	h.etcd = client
	return h
}

// hubAt wraps a running hub with an embedded log.
func hubAt(t *testing.T, running *env.Hub) *hub {
	t.Helper()
	return &hub{Hub: running, api: newAPI(t, running.PathConfig(""), true, nil)}
}

// space creates a space and returns a client for it.
func (h *hub) space(name string) *api {
	h.t.Helper()
	h.post(spaces, spaceNamed(name)).is(h.t, http.StatusCreated, "create space "+name)
	return h.in(name)
}

// in returns a client for a space.
func (h *hub) in(name string) *api {
	return &api{t: h.t, host: h.host, root: "/spaces/" + name, http: h.http, idle: h.idle}
}

// keys returns the keys of the log that contain a segment.
func (h *hub) keys(segment string) []string {
	h.t.Helper()
	got, err := h.etcd.Get(h.t.Context(), "/orrery/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		h.t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		if bytes.Contains(append(kv.Key, '/'), []byte("/"+segment+"/")) {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys
}

// nothingLeft waits until no key of the log contains a segment.
func (h *hub) nothingLeft(segment string) {
	h.t.Helper()
	start := time.Now()
	env.Eventually(h.t, soon, func() error {
		if keys := h.keys(segment); len(keys) > 0 {
			return fmt.Errorf("the log has %d keys with %q: %.5q", len(keys), segment, keys)
		}
		return nil
	})
	h.t.Logf("nothing left of %s: after %s", segment, time.Since(start).Round(time.Millisecond))
}

func spaceNamed(name string) string {
	return fmt.Sprintf(`{"apiVersion":"orrery.dev/v1alpha1","kind":"Space","metadata":{"name":%q}}`, name)
}

func namespaceNamed(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
}

// configMap returns a ConfigMap with further metadata, which begins with a comma unless it is empty.
func configMap(name, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s},"data":{"k":"v"}}`, name, metadata)
}

// gadgetCRD defines gadgets.example.org, served in two versions.
const gadgetCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.org"},
"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

func gadget(version, name, metadata string) string {
	return fmt.Sprintf(`{"apiVersion":"example.org/%s","kind":"Gadget","metadata":{"name":%q%s}}`, version, name, metadata)
}
