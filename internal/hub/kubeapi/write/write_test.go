package write_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

const prefix = etcd.Prefix

// hub is the least around a write.Server that HTTP clients need.
type hub struct {
	t      testing.TB
	ctx    context.Context
	client *kubernetes.Client
	usage  *quota.Usage
	table  *table.Writer
	kinds  *registry.Registry
	config write.Config
	server *write.Server
	url    string
}

// shared are made once: they are costly, and immutable or safe for concurrent use.
var shared struct {
	registry *registry.Registry
	client   *kubernetes.Client
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		println("space tests:", err.Error())
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "orrery-space")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log, err := etcd.Open(context.Background(), etcd.Config{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 1, err
	}
	defer func() { _ = log.Close() }()
	shared.client = log.Client()
	if shared.registry, err = registry.New(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// newHub serves an empty log with the spaces a and b.
func newHub(t testing.TB) *hub {
	t.Helper()
	return newPlacingHub(t, nil)
}

// newPlacingHub is newHub with memberships.
func newPlacingHub(t testing.TB, placed table.Deriver) *hub {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	usage, shown := quota.NewUsage(), exports.New()
	h := &hub{t: t, ctx: ctx, client: shared.client, kinds: shared.registry, usage: usage,
		table: table.New(table.Config{Deriver: placed, Observer: usage, Exposer: shown, WindowSteps: 1000, WindowBytes: 1 << 20})}
	if _, err := h.client.Client.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	from := h.rev()
	h.table.Reset(from, nil)
	tailed := make(chan struct{})
	go func() {
		defer close(tailed)
		h.tail(from + 1)
	}()
	t.Cleanup(func() { cancel(); <-tailed })
	h.config = write.Config{Client: h.client, Prefix: prefix, Table: h.table.Table, Limits: quota.New(h.table.Table, usage), Kinds: h.kinds, Exports: shown}
	h.serve(nil)
	s := httptest.NewServer(h.chain())
	t.Cleanup(s.Close)
	h.url = s.URL
	for _, name := range []string{"a", "b"} {
		h.must(201, h.do("POST", "root", "/apis/orrery.dev/v1alpha1/spaces", object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": name}}))
	}
	return h
}

// serve has a server whose log has room, or not.
func (h *hub) serve(room write.Room) {
	h.t.Helper()
	h.config.Room = room
	var err error
	if h.server, err = write.New(h.config); err != nil {
		h.t.Fatal(err)
	}
}

// tail keeps the table equal to the log from a revision on.
func (h *hub) tail(from int64) {
	for r := range h.client.Watch(h.ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		var rev int64
		var updates []table.Update
		flush := func() {
			if len(updates) > 0 {
				if err := h.table.Apply(rev, updates); err != nil {
					h.t.Error(err)
				}
			}
			updates = nil
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision != rev {
				flush()
				rev = e.Kv.ModRevision
			}
			u := table.Update{Key: strings.TrimPrefix(string(e.Kv.Key), prefix), Value: e.Kv.Value, CreateRev: e.Kv.CreateRevision, ModRev: e.Kv.ModRevision}
			if e.Type == mvccpb.DELETE {
				u.Value = nil
			}
			updates = append(updates, u)
		}
		flush()
	}
}

// rev is the log's revision.
func (h *hub) rev() int64 {
	r, err := h.client.Client.Get(h.ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0
	}
	return r.Header.Revision
}

// caughtUp waits for the table.
func (h *hub) caughtUp() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, limit.Wait)
	defer cancel()
	if err := h.table.WaitFor(ctx, h.rev()); err != nil {
		h.t.Fatal(err)
	}
}

// rootKey is of the root in the context of a request.
type rootKey struct{}

// clustered are the kinds of tests that are in no namespace.
var clustered = []schema.GroupKind{{Group: "example.com", Kind: "Rack"}, {Kind: "Namespace"}}

// chain serves /spaces/NAME/..., and the writes by export views.
func (h *hub) chain() http.Handler {
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, _ := request.RequestInfoFrom(req.Context())
		s, _ := write.SpaceFromContext(req.Context())
		fail := func(err error) {
			responsewriters.ErrorNegotiated(err, scheme.Codecs.WithoutConversion(), schema.GroupVersion{Version: "v1"}, w, req)
		}
		h.caughtUp()
		root, _ := req.Context().Value(rootKey{}).(route.Root)
		f, space, through := root.ExportView()
		if through {
			s = f.Space
		}
		catalog, err := h.kinds.Catalog(s, h.table.Snapshot())
		if err != nil {
			fail(err)
			return
		}
		kind, ok := catalog.Lookup(schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource})
		if !ok {
			http.NotFound(w, req)
			return
		}
		var serve http.HandlerFunc
		if through {
			serve, err = h.server.ExportHandler(kind, write.ExportViewScope{ID: f, Space: space, Clustered: clustered}, info)
		} else {
			serve, err = h.server.Handler(kind, s, info)
		}
		if err != nil {
			fail(err)
			return
		}
		serve(w, req)
	})
	handler = filters.WithRequestInfo(handler, resolver)
	handler = filters.WithWarningRecorder(handler)
	handler = filters.WithAuditInit(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		root, rest := route.Parse(req.URL.Path)
		ctx := write.WithSpace(context.WithValue(req.Context(), rootKey{}, root), key.Space(root.Name))
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "tester"})
		req = req.Clone(ctx)
		req.URL.Path = "/" + rest
		handler.ServeHTTP(w, req)
	})
}

type object = map[string]any

// answer is the response to a request.
type answer struct {
	method, path string
	code         int
	body         object
	raw          []byte
	warnings     []string
}

// field returns a value of the response by its path.
func (a answer) field(path ...string) any {
	var v any = a.body
	for _, p := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (h *hub) do(method, s, path string, body any, header ...string) answer {
	h.t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			h.t.Fatal(err)
		}
	}
	if !strings.HasPrefix(s, "/") { // a space, and no root
		s = route.Space(key.Space(s)).String()
	}
	req, err := http.NewRequest(method, h.url+s+path, bytes.NewReader(data))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{method: method, path: s + path, code: resp.StatusCode, warnings: resp.Header.Values("Warning")}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		h.t.Fatal(err)
	}
	_ = json.Unmarshal(a.raw, &a.body)
	return a
}

// must ends the test unless an answer has the code.
func (h *hub) must(code int, a answer) answer {
	h.t.Helper()
	if a.code != code {
		h.t.Fatalf("%s %s: got %d, want %d: %s", a.method, a.path, a.code, code, a.raw)
	}
	return a
}

// refused checks the code and reason of a refusal, and that the message has a part.
func (h *hub) refused(a answer, code int, reason metav1.StatusReason, fragment string) {
	h.t.Helper()
	h.must(code, a)
	if got := a.field("reason"); got != string(reason) {
		h.t.Errorf("%s %s: got reason %v, want %s: %s", a.method, a.path, got, reason, a.raw)
	}
	if m, _ := a.field("message").(string); !strings.Contains(m, fragment) {
		h.t.Errorf("%s %s: message %q lacks %q", a.method, a.path, m, fragment)
	}
}

// stored is what the log has under a key, nil if nothing.
func (h *hub) stored(k string) []byte {
	h.t.Helper()
	r, err := h.client.Client.Get(h.ctx, prefix+k)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		return nil
	}
	return r.Kvs[0].Value
}

// keys counts what the log has below a prefix.
func (h *hub) keys(p string) int64 {
	h.t.Helper()
	r, err := h.client.Client.Get(h.ctx, prefix+p, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Count
}

// lagging is a server whose table shows one row of the past and does not move.
func (h *hub) lagging(rev int64, row *table.Row) *write.Server {
	h.t.Helper()
	past := table.New(table.Config{WindowSteps: 1, WindowBytes: 1})
	past.Reset(rev, []table.Update{{Key: row.Key, Value: row.Value, CreateRev: row.CreateRev, ModRev: row.ModRev}})
	s, err := write.New(write.Config{Client: h.client, Prefix: prefix, Table: past.Table, Limits: quota.New(past.Table, quota.NewUsage()), Kinds: h.kinds})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// brief is a context that ends soon.
func (h *hub) brief() context.Context {
	ctx, cancel := context.WithTimeout(h.ctx, 100*time.Millisecond)
	h.t.Cleanup(cancel)
	return ctx
}
