package readiness

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// TestNotYet: a Kubernetes client that watches at a hub which is loading its log waits on another
// connection until the hub serves. It does not receive a failed watch, after which informers list
// everything again.
func TestNotYet(t *testing.T) {
	g := New(Config{Now: time.Now})
	var watches, connections atomic.Int64
	gate := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if watches.Add(1) > 1 {
			g.phase.serve(0, true)
		}
		gate.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	if watches.Load() != 2 || connections.Load() != 2 {
		t.Errorf("%d requests, %d connections", watches.Load(), connections.Load())
	}
}

// TestHeard: a request that needs no response of an embedded log does not make a hub ready while
// the log does not respond.
func TestHeard(t *testing.T) {
	l, err := etcd.Open(t.Context(), etcd.Config{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	g := New(Config{Log: l, Now: time.Now, Silent: func() bool { return false }})
	g.phase.ready = true
	tail := g.Hooks().Probed
	tail(errors.New("the log does not answer"))
	if g.recordAnswer(t.Context(), nil, 0); g.Ready() {
		t.Error("ready, though the log does not answer")
	}
	if begun := time.Now(); g.Answers().Before(begun) {
		t.Errorf("it is said to answer since %v, though it does not", g.Answers())
	}
	if tail(nil); !g.Ready() {
		t.Error("not ready, though the log answers")
	}
	if g.recordAnswer(t.Context(), errors.New("closed"), 0); g.Ready() {
		t.Error("ready, though a request has failed")
	}
}
