package hub

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

const patience = 20 * time.Second

// running is a hub in this process.
type running struct {
	*Hub
	t    testing.TB
	dir  string
	stop func()
}

// start runs a hub on a data directory until the test ends or stop is called.
func start(t testing.TB, dir string, configure ...func(*Config)) *running {
	t.Helper()
	return startPrepared(t, dir, func(*Hub) {}, configure...)
}

// startPrepared prepares the hub before it runs.
func startPrepared(t testing.TB, dir string, prepare func(*Hub), configure ...func(*Config)) *running {
	t.Helper()
	config := DefaultConfig()
	config.DataDir, config.Listen, config.UnsafeNoFsync = dir, "127.0.0.1:0", true
	config.Settle, config.RoomRetry = 20*time.Millisecond, 200*time.Millisecond
	config.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	for _, c := range configure {
		c(&config)
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h, err := newHub(ctx, config, listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	prepare(h)
	if err := h.writeAdminKubeconfig(filepath.Join(dir, "admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- h.run(ctx, listener, func() { close(ready) }) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the hub ended with: %v", err)
		}
		if err := h.log.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the hub ended with: %v", err)
	case <-time.After(patience):
		t.Fatal("the hub is not ready")
	}
	return &running{Hub: h, t: t, dir: dir, stop: stop}
}

type logWriter struct{ t testing.TB }

func (l logWriter) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (r *running) config(path string) *rest.Config {
	r.t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", filepath.Join(r.dir, "admin.kubeconfig"))
	if err != nil {
		r.t.Fatal(err)
	}
	c.Host, c.QPS = r.url+path, -1
	return c
}

func (r *running) space(s key.Space) dynamic.Interface {
	r.t.Helper()
	d, err := dynamic.NewForConfig(r.config(route.Space(s).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

var (
	spacesGVR      = v1alpha1.GroupVersion.WithResource("spaces")
	locationsGVR   = v1alpha1.GroupVersion.WithResource("locations")
	placementsGVR  = v1alpha1.GroupVersion.WithResource("placements")
	customizersGVR = v1alpha1.GroupVersion.WithResource("customizers")
	namespacesGVR  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsGVR  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func object(apiVersion, kind, namespace, name string, labels map[string]string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	maps.Copy(u.Object, fields)
	return u
}

func (r *running) create(s key.Space, gvr schema.GroupVersionResource, u *unstructured.Unstructured) *unstructured.Unstructured {
	r.t.Helper()
	out, err := r.space(s).Resource(gvr).Namespace(u.GetNamespace()).Create(r.t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatalf("create %s %q: %v", gvr.Resource, u.GetName(), err)
	}
	return out
}

func (r *running) addSpace(s key.Space) {
	r.t.Helper()
	r.create(key.Root, spacesGVR, object("orrery.dev/v1alpha1", "Space", "", string(s), nil, nil))
}

func (r *running) addLocation(l key.Location, labels map[string]string) {
	r.t.Helper()
	r.create(key.Root, locationsGVR, object("orrery.dev/v1alpha1", "Location", "", string(l), labels, nil))
}

// addConfigMap returns the revision that made it.
func (r *running) addConfigMap(name string, labels map[string]string, value string) int64 {
	r.t.Helper()
	made := r.create("s", configMapsGVR, object("v1", "ConfigMap", "default", name, labels, map[string]any{"data": map[string]any{"k": value}}))
	rev, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return rev
}

// addPlacement places everything labelled what=LABEL on locations labelled where=LABEL.
func (r *running) addPlacement(s key.Space, name, where, what string, extra map[string]any) {
	r.t.Helper()
	test := map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": what}}}}
	maps.Copy(test, extra)
	r.create(s, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", name, nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": where}}}},
		"downsync":  []any{test},
	}}))
}

// agent speaks the protocol as one location.
type agent struct {
	r        *running
	location key.Location
	token    string
	client   *http.Client
}

func (r *running) join(l key.Location) *agent {
	r.t.Helper()
	client, err := rest.HTTPClientFor(r.config(""))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := client.Post(r.url+"/spaces/root/apis/orrery.dev/v1alpha1/locations/"+string(l)+"/token", "application/json", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var token v1alpha1.LocationToken
	if err := json.NewDecoder(resp.Body).Decode(&token); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("token of %q: %s, %v", l, resp.Status, err)
	}
	join, err := wire.ParseJoin(token.Status.Token)
	if err != nil {
		r.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(join.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &agent{r: r, location: l, token: join.Token, client: &http.Client{Transport: transport}}
}

func (a *agent) do(ctx context.Context, method, path string, body io.Reader) *http.Response {
	a.r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.r.url+string(route.Agents)+path, body)
	if err != nil {
		a.r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set(wire.Header, wire.ProtocolVersion)
	resp, err := a.client.Do(req)
	if err != nil {
		a.r.t.Fatal(err)
	}
	return resp
}

// stream is an open desired stream.
type stream struct {
	t      testing.TB
	lines  *bufio.Reader
	cancel context.CancelFunc
	frames chan wire.Frame
}

// open opens the desired stream; the test has to close it.
func (a *agent) open(after int64, marker string) *stream {
	a.r.t.Helper()
	ctx, cancel := context.WithCancel(a.r.t.Context())
	resp := a.do(ctx, http.MethodGet, fmt.Sprintf("%s/desired?after=%d&marker=%s", a.location, after, marker), nil) //nolint:bodyclose // closed by the reader below
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		a.r.t.Fatalf("open the stream of %q: %s: %s", a.location, resp.Status, body)
	}
	s := &stream{t: a.r.t, lines: bufio.NewReader(resp.Body), cancel: cancel, frames: make(chan wire.Frame, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.frames)
		defer func() { _ = resp.Body.Close() }()
		decoder := json.NewDecoder(s.lines)
		for {
			var f wire.Frame
			if decoder.Decode(&f) != nil {
				return
			}
			select {
			case s.frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	a.r.t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *stream) close() { s.cancel() }

// next returns the next frame that is not a ping; ok is false when the stream has ended.
func (s *stream) next() (f wire.Frame, ok bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case f, ok = <-s.frames:
			if f.Ping != nil {
				continue
			}
			return f, ok
		case <-timeout:
			s.t.Fatal("no frame came")
		}
	}
}

// holding is what an agent has: the leaf of each key.
type holding map[string]wire.Sum

func (h holding) root() (root wire.Sum) {
	for _, sum := range h {
		root = root.Add(sum)
	}
	return root
}

// apply does what a frame says.
func (h holding) apply(f wire.Frame) {
	switch {
	case f.Put != nil:
		h[f.Put.Key] = wire.LeafSum(f.Put.Key, f.Put.UID, f.Put.Digest, f.Put.Policy)
	case f.Hold != nil:
		h[f.Hold.Key] = wire.LeafSum(f.Hold.Key, f.Hold.UID, f.Hold.Digest, wire.Policy{})
	case f.Conflict != nil:
		h[f.Conflict.Key] = wire.LeafSum(f.Conflict.Key, f.Conflict.UID, f.Conflict.Digest, wire.Policy{})
	case f.Del != nil:
		delete(h, f.Del.Key)
	}
}

// toMark applies frames up to a mark at or above a revision, and checks every
// mark's root and count on the way.
func (h holding) toMark(s *stream, rev int64) wire.Mark {
	s.t.Helper()
	mark, _ := h.causes(s, rev)
	return mark
}

// causes is toMark, and lists what goes as "KEY CAUSE".
func (h holding) causes(s *stream, rev int64) (mark wire.Mark, causes []string) {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		h.apply(f)
		if f.Del != nil {
			causes = append(causes, f.Del.Key+" "+string(f.Del.Cause))
		}
		if f.Mark == nil {
			continue
		}
		if root := h.root(); root != f.Mark.Root || len(h) != f.Mark.Count {
			s.t.Fatalf("at revision %d the agent has %d objects with root %s, the hub says %d with %s", f.Mark.Revision, len(h), root, f.Mark.Count, f.Mark.Root)
		}
		if f.Mark.Revision >= rev {
			return *f.Mark, causes
		}
	}
}
