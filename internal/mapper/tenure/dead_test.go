package tenure

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/mapper/target"
)

// halfOpen is a cluster with no Leases. Once it is dead, it answers nothing, and nobody says so,
// as over a connection of HTTP/1.1 of which the other side is gone.
type halfOpen struct {
	dead  atomic.Bool
	lists atomic.Int64
}

// silence is the body of a watch that shows nothing.
type silence struct{ ctx context.Context } //nolint:containedctx // it is that of the request, as with any body

func (s silence) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (silence) Close() error               { return nil }

// RoundTrip implements http.RoundTripper.
func (h *halfOpen) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case h.dead.Load():
		<-r.Context().Done()
		return nil, r.Context().Err()
	case r.URL.Query().Get("watch") != "":
		answer.Body = silence{r.Context()}
	default:
		h.lists.Add(1)
		answer.Body = io.NopCloser(strings.NewReader(leases()))
	}
	return answer, nil
}

// TestDeadConnection: the agent of a whole location whose connections are dead acts no more by
// the time that the first shards of the location do, and nothing is carried out that it has sent.
// While all is well it asks seldom.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := &halfOpen{}
		client, err := target.New(&rest.Config{Host: "http://cluster", Transport: at}, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		w := New(Config{Target: client, Leases: client, Namespace: "orrery-system", Holder: "w", Log: slog.New(slog.DiscardHandler), Changed: func(string) {}})
		w.Identify("paris.0a1b2c3d")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		const calm = 10 * time.Minute
		for range int(calm / time.Second) {
			time.Sleep(time.Second) //nolint:forbidigo // the clock is that of synctest
			if _, _, err := w.Held(); err != nil {
				t.Fatalf("it does not act: %v", err)
			}
		}
		if n, most := at.lists.Load(), int64(calm/(looksEach*DefaultDuration))+2; n > most {
			t.Errorf("%d lists in %s", n, calm)
		}
		at.dead.Store(true)
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
			time.Sleep(time.Second) //nolint:forbidigo // as above
		}
		if took := over.Sub(began); took >= noticeTimes*DefaultDuration {
			t.Errorf("what it has sent may be carried out for %s", took)
		}
	})
}
