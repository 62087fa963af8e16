package fencing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// startWhole starts the Fence of the agent of a whole location, at a cluster with these answers.
func startWhole(t *testing.T, answer http.HandlerFunc) *Fence {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return startWholeAt(t, &rest.Config{Host: server.URL})
}

// startWholeAt is startWhole for a cluster that is reached by a configuration.
func startWholeAt(t *testing.T, config *rest.Config) *Fence {
	t.Helper()
	client, err := kubeclient.New(config, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Target: client, Leases: client, Namespace: "orrery-system", Holder: "w", Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
	w.Identify("paris.0a1b2c3d")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func leases(items ...string) string {
	return `{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[` + strings.Join(items, ",") + `]}`
}

func respond(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, text)
}

// quietWatch answers a watch that shows nothing.
func quietWatch(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
	return true
}

// becomes waits until the agent acts, or does not act for a reason.
func becomes(t *testing.T, w *Fence, why string) {
	t.Helper()
	env.Eventually(t, env.Soon, func() error {
		_, until, err := w.Held()
		if left := time.Until(until); err == nil && (left <= 0 || left >= noticeTimes*DefaultDuration) {
			return fmt.Errorf("what it sends may take for %s, and the first shards wait for %s", left, noticeTimes*DefaultDuration)
		}
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			return fmt.Errorf("the agent is told %q, not %q", fmt.Sprint(err), why)
		}
		return nil
	})
}

// TestWholeNeedsToWatch shows that an agent that may list Leases but not watch them does not act, and does not
// repeat the list without end.
func TestWholeNeedsToWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, wholeNeedsToWatch)
}

func wholeNeedsToWatch(t *testing.T) {
	var lists atomic.Int64
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			rw.WriteHeader(http.StatusForbidden)
			respond(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		}
		lists.Add(1)
		respond(rw, leases())
	})
	w := startWholeAt(t, &rest.Config{Host: "http://target", Transport: protocol.Memory{Handler: handler}})
	becomes(t, w, "orrery-agent rbac")
	before := lists.Load()
	env.Throughout(t, limit.Window, func() error {
		if n := lists.Load() - before; n > 20 {
			return fmt.Errorf("%d lists", n)
		}
		return nil
	})
}

// TestMissingKindIsByDiscovery shows that the status NotFound, which may come from a proxy, is no proof that a
// cluster does not serve Leases.
func TestMissingKindIsByDiscovery(t *testing.T) {
	t.Parallel()
	var found atomic.Bool
	w := startWhole(t, func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case !found.Load():
			found.Store(r.URL.Query().Get("labelSelector") != "")
			http.NotFound(rw, r)
		case r.URL.Path == "/apis":
			respond(rw, `{"kind":"APIGroupList","groups":[{"name":"coordination.k8s.io","preferredVersion":{"groupVersion":"coordination.k8s.io/v1"},"versions":[{"groupVersion":"coordination.k8s.io/v1"}]}]}`)
		case !quietWatch(rw, r):
			respond(rw, leases(`{"metadata":{"namespace":"orrery-system","name":"orrery-paris.0a1b2c3d-1","resourceVersion":"7"}}`))
		}
	})
	becomes(t, w, "orrery-paris.0a1b2c3d-1")
}

// TestClusterWithoutLeases: where there is no such kind, there are no shards.
func TestClusterWithoutLeases(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis" {
			respond(rw, `{"kind":"APIGroupList","groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1"},"versions":[{"groupVersion":"apps/v1"}]}]}`)
			return
		}
		http.NotFound(rw, r)
	})
	becomes(t, w, "")
}

// TestAnybodysLeases: Leases that others make, whatever their labels, are no shard's.
func TestAnybodysLeases(t *testing.T) {
	t.Parallel()
	w := startWhole(t, func(rw http.ResponseWriter, r *http.Request) {
		if !quietWatch(rw, r) {
			respond(rw, leases(`{"metadata":{"namespace":"tenant","name":"orrery-paris.0a1b2c3d-1"}}`, `{"metadata":{"namespace":"orrery-system","name":"orrery-paris.0a1b2c3d-33"}}`,
				`{"metadata":{"namespace":"orrery-system","name":"x"}}`, `{"metadata":{"namespace":"orrery-system","name":"orrery-paris.0a1b2c3d-01"}}`))
		}
	})
	becomes(t, w, "")
}

// TestAnotherOwner: what is held as one owner ends as soon as the agent is another.
func TestAnotherOwner(t *testing.T) {
	w := New(Config{Shard: key.NewShard(1, 2), Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
	w.Identify("paris.0a1b2c3d")
	w.allow(now().add(time.Minute))
	held, _, err := w.Held()
	if err != nil {
		t.Fatal(err)
	}
	w.Identify("paris.ffffffff")
	if _, _, err := w.Held(); err == nil || held.Err() == nil {
		t.Error("the agent acts as the new owner by the Lease of the former")
	}
}
