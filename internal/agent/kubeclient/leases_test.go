package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// recorder is a client of a target that records its requests.
type recorder struct {
	*Client
	mu  sync.Mutex
	all []*http.Request
}

// recordedBy returns a recorder of a target that responds to all requests by a handler.
func recordedBy(t *testing.T, answer http.HandlerFunc) *recorder {
	t.Helper()
	a, handler := recordedVia(t, answer)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	a.connect(t, &rest.Config{Host: server.URL})
	return a
}

// recordedVia returns a recorder that is not connected, and the handler of its target.
func recordedVia(t *testing.T, answer http.HandlerFunc) (*recorder, http.Handler) {
	t.Helper()
	a := &recorder{}
	return a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.all = append(a.all, r.Clone(context.WithoutCancel(r.Context())))
		a.mu.Unlock()
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // otherwise the server does not notice that the client has disconnected
			t.Error(err)
		}
		answer(w, r)
	})
}

// connect creates the client.
func (a *recorder) connect(t *testing.T, config *rest.Config) {
	t.Helper()
	var err error
	if a.Client, err = New(config, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
}

// taken returns the requests since the last call.
func (a *recorder) taken() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

var example = key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "x"}

// writesOf returns all requests with which an agent can change the target.
func writesOf(c *Client) map[string]func(context.Context) error {
	p := Place{Resource: example.Resource, Version: "v1"}
	return map[string]func(context.Context) error{
		"apply": func(ctx context.Context) error {
			_, err := c.Apply(ctx, p, example, "m", []byte("{}"))
			return err
		},
		"remove": func(ctx context.Context) error {
			_, err := c.Remove(ctx, p, example, "u", metav1.DeletePropagationBackground)
			return err
		},
		"create namespace": func(ctx context.Context) error { return c.CreateNamespace(ctx, "n", "paris.0a1b2c3d") },
		"try apply": func(ctx context.Context) error {
			_, err := c.TryApply(ctx, p, example, "m", []byte("{}"))
			return err
		},
		"try create": func(ctx context.Context) error { return c.TryCreate(ctx, p, example, "m", []byte("{}")) },
		"merge": func(ctx context.Context) error {
			_, err := c.Merge(ctx, "mark", p, example, "m", []byte("{}"))
			return err
		},
	}
}

// TestWritesEndWithTheLease checks that a write is sent only while the agent holds its Lease, with
// a timeout for the API server that ends before another agent can acquire it, even below a second.
// Reads and requests for Leases have no such timeout.
func TestWritesEndWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, writesEndWithTheLease) // no time passes between Guard and a request
}

func writesEndWithTheLease(t *testing.T) {
	a, handler := recordedVia(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") })
	a.connect(t, &rest.Config{Host: "http://target", Transport: protocol.Memory{Handler: handler}})
	var left time.Duration
	var why error
	a.Guard(func() (context.Context, time.Time, error) { return context.Background(), time.Now().Add(left), why })
	for name, write := range writesOf(a.Client) {
		for _, left = range []time.Duration{50 * time.Second, 300 * time.Millisecond} {
			if err := write(t.Context()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r := a.taken()[0]
			bound, err := time.ParseDuration(r.URL.Query().Get("timeout"))
			if err != nil || bound <= 0 || bound > left {
				t.Errorf("%s, with %s left, may take %s (%v): %s", name, left, bound, err, r.URL)
			}
			if name != "remove" && r.URL.Query().Get("fieldManager") == "" {
				t.Errorf("%s has lost its other parameters: %s", name, r.URL)
			}
		}
		for _, left = range []time.Duration{0, -time.Second, time.Microsecond} {
			if err := write(t.Context()); !errors.Is(err, ErrNotHeld) || len(a.taken()) > 0 {
				t.Errorf("%s, with %s left: %v", name, left, err)
			}
		}
		left, why = time.Minute, errors.New("it is another's")
		if err := write(t.Context()); !errors.Is(err, ErrNotHeld) || len(a.taken()) > 0 {
			t.Errorf("%s of an agent that may not act: %v", name, err)
		}
		why = nil
	}
	why = errors.New("it is another's")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l"}}
	_, errGet := a.Get(t.Context(), Namespaces, key.Identity{Resource: key.Namespaces, Name: "n"})
	_, errCreate := a.CreateLease(t.Context(), lease)
	_, errUpdate := a.UpdateLease(t.Context(), lease)
	if err := errors.Join(errGet, errCreate, errUpdate); err != nil {
		t.Error(err)
	}
	for _, r := range a.taken() {
		if r.URL.Query().Has("timeout") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}
}

// TestWritesUnderWay checks that a write is abandoned when the agent loses its Lease. The target may
// still carry it out, so the agent does not release the Lease.
func TestWritesUnderWay(t *testing.T) {
	t.Parallel()
	for name := range writesOf(nil) {
		arrived, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		a := recordedBy(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
			ended <- struct{}{}
		})
		held, end := context.WithCancel(t.Context())
		a.Guard(func() (context.Context, time.Time, error) { return held, time.Now().Add(time.Minute), nil })
		done := make(chan error, 1)
		go func() { done <- writesOf(a.Client)[name](t.Context()) }()
		limit.Receive(t, arrived, name+" arrives")
		if a.Unanswered() {
			t.Errorf("%s was given up", name)
		}
		end()
		if err := limit.Receive(t, done, name+" returns"); err == nil || !a.Unanswered() {
			t.Errorf("%s: %v, unanswered: %t", name, err, a.Unanswered())
		}
		limit.Receive(t, ended, name+" ends at the target")
	}
}
