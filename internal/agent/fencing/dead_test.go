package fencing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/kubeclient"
)

// halfOpen is a cluster without Leases. Once it is dead, it sends no answers, and connections report no error,
// like a connection of HTTP/1.1 whose other side has disappeared.
type halfOpen struct {
	// proto is the version of HTTP. By the second the transport notices.
	proto int
	dead  atomic.Bool
	// noticed fires when a transport that pings has noticed it.
	noticed chan time.Time
	lists   atomic.Int64
}

// silence is the body of a watch that shows nothing.
type silence struct {
	ctx     context.Context //nolint:containedctx // it is that of the request, as with any body
	cluster *halfOpen
}

// Read ends with the request, or when the transport has noticed that the connection is dead.
func (s silence) Read([]byte) (int, error) {
	var noticed <-chan time.Time
	if s.cluster.proto >= 2 {
		noticed = s.cluster.noticed
	}
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-noticed:
		return 0, io.ErrUnexpectedEOF
	}
}

func (silence) Close() error { return nil }

// RoundTrip implements http.RoundTripper.
func (h *halfOpen) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, ProtoMajor: h.proto, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case h.dead.Load():
		<-r.Context().Done()
		return nil, r.Context().Err()
	case r.URL.Query().Get("watch") != "":
		answer.Body = silence{r.Context(), h}
	default:
		h.lists.Add(1)
		answer.Body = io.NopCloser(strings.NewReader(leases()))
	}
	return answer, nil
}

// TestDeadConnection: the agent of a whole location whose connections are dead acts no more by
// the time that the first shards of the location do, and nothing is carried out that it has sent.
// While all is well it asks seldom, or, where the transport notices, once.
func TestDeadConnection(t *testing.T) {
	for proto, maxLists := range map[int]int64{1: int64(quiet/(looksEach*DefaultDuration)) + 2, 2: 1} {
		t.Run(fmt.Sprintf("HTTP %d", proto), func(t *testing.T) { testDeadConnection(t, proto, maxLists) })
	}
}

// quiet is the time without faults.
const quiet = 10 * time.Minute

func testDeadConnection(t *testing.T, proto int, maxLists int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := &halfOpen{proto: proto, noticed: make(chan time.Time, 1)}
		client, err := kubeclient.New(&rest.Config{Host: "http://cluster", Transport: cluster}, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		w := New(Config{Target: client, Leases: client, Namespace: "orrery-system", Holder: "w", Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
		w.Identify("paris.0a1b2c3d")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		for range int(quiet / time.Second) {
			<-time.After(time.Second)
			if _, _, err := w.Held(); err != nil {
				t.Fatalf("it does not act: %v", err)
			}
		}
		if n := cluster.lists.Load(); n > maxLists {
			t.Errorf("%d lists in %s", n, quiet)
		}
		cluster.dead.Store(true)
		time.AfterFunc(45*time.Second, func() { cluster.noticed <- time.Now() })
		began, over := time.Now(), time.Time{}
		for {
			_, until, err := w.Held()
			if err != nil {
				break
			}
			over = until
			if time.Since(began) > noticeTimes*DefaultDuration {
				t.Fatal("it still acts")
			}
			<-time.After(time.Second)
		}
		if took := over.Sub(began); took >= noticeTimes*DefaultDuration {
			t.Errorf("what it has sent may be carried out for %s", took)
		}
	})
}
