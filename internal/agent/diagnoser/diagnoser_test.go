package diagnoser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/decide"
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
	events   []string
	during   func() // called before the Pods are returned; nil: nothing
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
	items, more := "", ""
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
	case strings.HasSuffix(r.URL.Path, "/events"):
		items, more = a.eventsFrom(r.URL.Query())
	case strings.HasSuffix(r.URL.Path, "/pods") && strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "status.phase=Pending"):
		if items = a.pods; a.during != nil {
			a.during()
		}
	}
	_, _ = fmt.Fprintf(w, `{"kind":"List","metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, more, items)
}

// eventsFrom returns a page of the events, in order, and the continue token of the next one.
func (a *api) eventsFrom(query url.Values) (items, more string) {
	first, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	next := min(first+limit, len(a.events))
	if next < len(a.events) {
		more = strconv.Itoa(next)
	}
	return strings.Join(a.events[first:next], ","), more
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
	t.Cleanup(b.engine.Stop)
	b.desire("")
	return b
}

// desire stores the desired Deployment, for which a ServiceAccount acts; empty: the agent.
func (b *bench) desire(account string) {
	b.Helper()
	object := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`)
	b.receive(wire.Frame{Put: &wire.Put{Key: "s/" + webID, UID: "source", Digest: wire.SumOf(object), Policy: wire.Policy{ServiceAccount: account}, Object: object}})
}

// receive stores a frame of the hub.
func (b *bench) receive(f wire.Frame) {
	b.Helper()
	a, err := store.Admit(f)
	if err != nil {
		b.Fatal(err)
	}
	var all []store.Touched
	if err := b.store.Write(b.Context(), func(t *store.Tx) (err error) {
		all, _, err = store.Intake{Proven: true}.Apply(t, []store.Arrival{a}, time.Now())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.engine.Touch(all)
}

// setRecord stores the record of the Deployment; nil removes it.
func (b *bench) setRecord(r *store.Record) {
	b.Helper()
	if err := b.store.Write(b.Context(), func(t *store.Tx) error { return t.PutRecord(webID, r) }); err != nil {
		b.Fatal(err)
	}
}

// recordFor returns a record of the Deployment with a ServiceAccount.
func recordFor(account string) *store.Record {
	return &store.Record{Space: "s", UID: "u", Source: store.Source{UID: "source", Policy: wire.Policy{ServiceAccount: account}}}
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
	b.diagnose(b.Context(), subject{webID, "s", kubeclient.Place{Resource: diagnosis.Deployments, Version: "v1"}, "u", generation})
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
	if space := b.queue.all[webID].space; space != "s" {
		t.Errorf("the diagnosis takes the turn of space %q, want s", space)
	}
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
	b.desire("shop/deployer")
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

// TestAccount: a diagnosis uses the rights of the ServiceAccount in the desired policy, also before the agent has applied
// that, and of the recorded policy only if the object is not desired any more. It is stored only if the account still
// acts for the object.
func TestAccount(t *testing.T) {
	b := newBench(t)
	b.setObserved("u", 2, wire.Progressing)
	b.setRecord(recordFor("shop/former"))
	check := func(account string) {
		t.Helper()
		b.api.accounts = nil
		d := b.diagnosed(2)
		b.wants(d, pullText)
		if len(b.api.accounts) == 0 {
			t.Fatal("nothing was read")
		}
		for _, user := range b.api.accounts {
			if user != "system:serviceaccount:"+strings.ReplaceAll(account, "/", ":") {
				t.Errorf("read as %q, want %s", user, account)
			}
		}
		if d != nil && d.Account != account {
			t.Errorf("the diagnosis is one of %q, want %s", d.Account, account)
		}
	}
	b.desire("shop/present")
	check("shop/present")
	b.desire("shop/newer")
	check("shop/newer")
	b.api.during = func() { b.desire("shop/newest") }
	b.api.pods = strings.ReplaceAll(pull, "nosuch", "another")
	b.wants(b.diagnosed(2), pullText) // by the account of before
	b.api.pods, b.api.during = pull, nil
	check("shop/newest")
	b.receive(wire.Frame{Del: &wire.Del{Key: "s/" + webID, UID: "source"}})
	b.setRecord(recordFor("shop/last"))
	check("shop/last")
}

// TestReleased: an object that is neither desired nor recorded, or not ours at the cluster, leaves the queue, and nothing
// is read of it.
func TestReleased(t *testing.T) {
	resource := diagnosis.Deployments
	id, err := key.ParseIdentity(webID)
	if err != nil {
		t.Fatal(err)
	}
	for name, release := range map[string]func(b *bench){
		"orphaned": func(b *bench) {
			b.receive(wire.Frame{Del: &wire.Del{Key: "s/" + webID, UID: "source"}})
			if err := b.store.Write(b.Context(), func(x *store.Tx) error { return x.Orphan(webID) }); err != nil {
				b.Fatal(err)
			}
		},
		"taken by another owner": func(b *bench) {
			b.engine.Observe("", []worklist.Sighting{{Object: key.Object{Space: "s", Identity: id}, Gone: true, Seen: decide.Observed{UID: "u", Revision: 3}}}, 0)
		},
		"forgotten": func(b *bench) { b.Diagnoser.engine = worklist.New() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.setRecord(recordFor(""))
			b.setObserved("u", 2, wire.Progressing)
			b.engine.Observe("", []worklist.Sighting{{Object: key.Object{Space: "s", Identity: id}, Ours: true, Seen: decide.Observed{UID: "u", Revision: 2}, Health: 7}}, 0)
			b.engine.Synced("", resource, map[string]struct{}{webID: {}}, 2)
			b.wants(b.diagnosed(2), pullText)
			if len(b.queue.all) != 1 {
				t.Fatalf("%d objects in the queue", len(b.queue.all))
			}
			release(b)
			b.api.requests = nil
			b.diagnosed(2)
			if len(b.queue.all) != 0 || len(b.api.requests) != 0 {
				t.Errorf("%d objects in the queue, and %d requests: %v", len(b.queue.all), len(b.api.requests), b.api.requests)
			}
			if name == "forgotten" {
				return
			}
			// An object that becomes ours again is observed again, although it has not changed.
			b.desire("")
			again := b.engine.Observe("", []worklist.Sighting{{Object: key.Object{Space: "s", Identity: id}, Ours: true, Seen: decide.Observed{UID: "u", Revision: 4}, Health: 7}}, 0)
			if len(again) != 1 {
				t.Errorf("%d objects are observed again, want 1", len(again))
			}
		})
	}
}

// TestNewestEvent: of many events of one object, which lists show by name, the newest counts. The number of pages is
// limited.
func TestNewestEvent(t *testing.T) {
	b := newBench(t)
	b.api.pods = strings.ReplaceAll(pull, "ErrImagePull", "ContainerCreating")
	begun := time.Now().Add(-10 * time.Minute)
	add := func(n int) {
		for range n {
			i := len(b.api.events)
			b.api.events = append(b.api.events, fmt.Sprintf(`{"metadata":{"name":"web-1-a.%06d"},"involvedObject":{"uid":"p"},"reason":"FailedMount","message":"attempt %d","lastTimestamp":%q}`,
				i, i, begun.Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339)))
		}
	}
	add(250)
	b.setObserved("u", 2, wire.Progressing)
	b.wants(b.diagnosed(2), "Pod web-1-a: FailedMount: attempt 249")
	b.api.events = nil
	add(10 * maxEventPages * maxEvents)
	b.api.requests = nil
	b.diagnosed(2)
	pages := 0
	for _, r := range b.api.requests {
		if strings.Contains(r, "/events?involvedObject.uid=p&") {
			pages++
		}
	}
	if pages != maxEventPages {
		t.Errorf("%d pages of events were read, want %d: %v", pages, maxEventPages, b.api.requests)
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
	q := newQueue()
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
}
