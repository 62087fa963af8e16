package diagnoser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/diagnosis"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	webID = "apps/deployments/shop/web"
	web   = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u","generation":2},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`
	set   = `{"metadata":{"name":"web-1","uid":"s","ownerReferences":[{"uid":"u","controller":true}],"annotations":{"deployment.kubernetes.io/revision":"1"}}}`
	pull  = `{"metadata":{"name":"web-1-a","uid":"p","ownerReferences":[{"uid":"s","controller":true}]},"status":{"phase":"Pending","containerStatuses":[{"name":"c","image":"nosuch:1","state":{"waiting":{"reason":"ErrImagePull"}}}]}}`
)

// api is an API server with the answers of a test.
type api struct {
	mu       sync.Mutex
	object   string // the Deployment; empty: it does not exist
	pods     string
	refuses  string // the resource whose lists are forbidden
	requests []string
	accounts []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.URL.Path+"?"+r.URL.Query().Get("fieldSelector")+"&limit="+r.URL.Query().Get("limit"))
	a.accounts = append(a.accounts, r.Header.Get("Impersonate-User"))
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","reason":%q,"code":%d,"details":{"name":"web"}}`, reason, code)
	}
	items := ""
	switch {
	case a.refuses != "" && strings.HasSuffix(r.URL.Path, a.refuses):
		refuse(http.StatusForbidden, "Forbidden")
		return
	case strings.HasSuffix(r.URL.Path, "/deployments/web"):
		if a.object == "" {
			refuse(http.StatusNotFound, "NotFound")
			return
		}
		_, _ = fmt.Fprint(w, a.object)
		return
	case strings.HasSuffix(r.URL.Path, "/replicasets"):
		items = set
	case strings.HasSuffix(r.URL.Path, "/pods") && strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "status.phase=Pending"):
		items = a.pods
	}
	_, _ = fmt.Fprintf(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[%s]}`, items)
}

// bench is a diagnoser with its API server and store.
type bench struct {
	*testing.T
	api   *api
	store *store.Store
	*Diagnoser
	logged *strings.Builder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, api: &api{object: web, pods: pull}, logged: &strings.Builder{}}
	server := httptest.NewServer(b.api)
	t.Cleanup(server.Close)
	log := slog.New(slog.NewTextHandler(b.logged, nil))
	target, err := kubeclient.New(&rest.Config{Host: server.URL}, "test", 4, func(string, int) {}, log)
	if err != nil {
		t.Fatal(err)
	}
	if b.store, err = store.Open(t.TempDir(), key.Location("edge"), nil, log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.store.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Diagnoser = New(worklist.New(), b.store, target, log)
	return b
}

// setObserved stores how the Deployment was observed.
func (b *bench) setObserved(uid string, generation int64, health wire.Health) {
	b.Helper()
	l := &store.Live{UID: uid, Generation: generation, Health: health, IsSuspect: health != wire.Healthy}
	if err := b.store.Write(b.Context(), func(t *store.Tx) error { return t.Observed.Update(webID, l) }); err != nil {
		b.Fatal(err)
	}
	b.Observe(webID, kubeclient.Place{Resource: diagnosis.Deployments, Version: "v1"}, l)
}

// diagnosed diagnoses the Deployment once, as observed with a generation, and returns the stored diagnosis.
func (b *bench) diagnosed(generation int64) *store.Diagnosis {
	b.Helper()
	b.diagnose(b.Context(), subject{webID, kubeclient.Place{Resource: diagnosis.Deployments, Version: "v1"}, "u", generation})
	var l *store.Live
	// A write waits for those before it.
	if err := b.store.Write(b.Context(), func(t *store.Tx) (err error) { l, err = t.Observed.Get(webID); return err }); err != nil {
		b.Fatal(err)
	}
	return l.Diagnosis
}

func (b *bench) wants(d *store.Diagnosis, text string) {
	b.Helper()
	got := ""
	if d != nil {
		got = d.Text
	}
	if got != text {
		b.Errorf("the diagnosis is %q, want %q", got, text)
	}
}

const pullText = `Pod web-1-a: ImagePullBackOff: container c, image "nosuch:1"`

// TestDiagnosis: the diagnosis of an object stays while it is observed as not healthy, and goes when it
// is healthy, changed, or made again.
func TestDiagnosis(t *testing.T) {
	b := newBench(t)
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), pullText)
	b.setObserved("u", 2, wire.Progressing) // an event of the watch
	stored := func() *store.Diagnosis {
		b.api.object = "" // read nothing more
		defer func() { b.api.object = web }()
		return b.diagnosed(2)
	}
	b.wants(stored(), pullText)
	b.setObserved("u", 3, wire.Progressing)
	b.wants(stored(), "")
	b.wants(b.diagnosed(3), "") // the cluster still shows generation 2
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), pullText)
	b.setObserved("u", 2, wire.Healthy)
	b.wants(b.diagnosed(2), "") // it was healthy when the Pods were read
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), pullText)
	b.api.pods = ""
	b.wants(b.diagnosed(2), "")
	b.api.pods = pull
	b.setObserved("v", 2, wire.Progressing)
	b.wants(b.diagnosed(2), "")
}

// TestBounds: the reads of a diagnosis are limited, and use the rights of the object's ServiceAccount.
func TestBounds(t *testing.T) {
	b := newBench(t)
	if err := b.store.Write(t.Context(), func(x *store.Tx) error {
		return x.PutRecord(webID, &store.Record{Space: "s", UID: "u", Source: store.Source{Policy: wire.Policy{ServiceAccount: "shop/deployer"}}})
	}); err != nil {
		t.Fatal(err)
	}
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), pullText)
	if len(b.api.requests) > 8 {
		t.Errorf("%d requests: %s", len(b.api.requests), strings.Join(b.api.requests, "\n"))
	}
	for i, one := range b.api.requests {
		if i > 0 && (strings.HasSuffix(one, "limit=") || !strings.Contains(one, "/namespaces/shop/")) {
			t.Errorf("a list without a limit: %s", one)
		}
		if b.api.accounts[i] != "system:serviceaccount:shop:deployer" {
			t.Errorf("%s was read as %q", one, b.api.accounts[i])
		}
	}
}

// TestDenied: without the right to read Pods there is no diagnosis, and one line of log for all objects.
func TestDenied(t *testing.T) {
	b := newBench(t)
	b.api.refuses = "/pods"
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), "")
	requests := len(b.api.requests)
	b.wants(b.diagnosed(2), "")
	if again := len(b.api.requests) - requests; again >= requests {
		t.Errorf("the denied right is tried each time: %v", b.api.requests)
	}
	if n := strings.Count(b.logged.String(), "resource=core/pods"); n != 1 {
		t.Errorf("logged %d times: %s", n, b.logged)
	}
}

// TestNext: a diagnosis that lasts until the deadline is final, and begins when it was first found.
func TestNext(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	found := diagnosis.Diagnosis{Text: "x", Subject: "s"}
	first := next(nil, found, time.Minute, start)
	second := next(first, diagnosis.Diagnosis{Text: "y", Subject: "s"}, time.Minute, start.Add(59*time.Second))
	third := next(second, found, time.Minute, start.Add(time.Minute))
	if first.Final || second.Final || second.Since != first.Since || !third.Final {
		t.Errorf("%+v %+v %+v", first, second, third)
	}
	if d := next(first, diagnosis.Diagnosis{Text: "x", Subject: "another Pod"}, time.Minute, start.Add(time.Minute)); d.Final {
		t.Error("a rollout that goes on became final, although each diagnosis was of another Pod")
	}
	if d := next(first, found, 0, start.Add(time.Hour)); d.Final {
		t.Error("without a deadline a diagnosis became final")
	}
	if d := next(nil, diagnosis.Diagnosis{Final: true}, time.Minute, start); !d.Final {
		t.Error("a reason that cannot go away is not final")
	}
}

// TestQueue: objects wait for some seconds before the first diagnosis, and longer before each further one.
func TestQueue(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	q := queue{all: map[string]*entry{}}
	if _, _, ok := q.next(start); ok {
		t.Error("an empty queue has a subject")
	}
	one, two := subject{id: "1", uid: "u"}, subject{id: "2", uid: "u"}
	q.set(one, start)
	q.set(two, start.Add(time.Second))
	q.set(one, start.Add(2*time.Second)) // it stays where it is
	if s, wait, _ := q.next(start); s != one || wait != unhealthyFor {
		t.Errorf("%v after %s", s, wait)
	}
	now := start
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, maxAgain, maxAgain} {
		q.done(one, now)
		q.remove(two.id)
		if _, wait, _ := q.next(now); wait != want {
			t.Errorf("the next diagnosis is after %s, want %s", wait, want)
		}
	}
	changed := subject{id: "1", uid: "u", generation: 2}
	q.set(changed, now)
	q.done(one, now.Add(time.Hour)) // of the former generation
	if s, wait, _ := q.next(now); s != changed || wait != unhealthyFor {
		t.Errorf("%v after %s", s, wait)
	}
	for i := range 2 * maxQueued {
		q.set(subject{id: fmt.Sprint("many", i), uid: "u"}, now)
	}
	if len(q.all) != maxQueued {
		t.Errorf("%d objects in the queue", len(q.all))
	}
}
