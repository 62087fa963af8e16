package hub

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

// TestArrivals: a request waits for its body before it has a turn, and gives up in time; what it holds
// meanwhile is bounded. Its handler reads the whole body, also of one that is larger than
// the first part.
func TestArrivals(t *testing.T) {
	t.Parallel()
	queue := fairqueue.NewQueue(fairqueue.Defaults(1))
	fair := respond.Limiter{
		Queue: queue, Bodies: fairqueue.Bodies{Queue: fairqueue.NewQueue(fairqueue.Defaults(1))},
		Arrivals: &respond.Arrivals{Budget: fairqueue.NewBudget(600 << 10), Read: requestbody.Prefetch, Expected: requestbody.Expected, Timeout: limit.Wait},
	}
	serve := func(fair respond.Limiter) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = requestbody.Guard(r)
			fair.Serve(route.Space(key.Space("s")), w, r, func(w http.ResponseWriter, r *http.Request) {
				data, err := requestbody.Read(r, requestbody.Limits{Bytes: 1 << 20})
				_, _ = fmt.Fprintf(w, "%d bytes, %v", len(data), err)
			})
		}))
		t.Cleanup(server.Close)
		return server
	}
	server := serve(fair)
	send := func(body io.Reader) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, size := range []int{0, 1, fairqueue.SmallBody - 1, fairqueue.SmallBody, fairqueue.SmallBody + 1, 2 * fairqueue.SmallBody} {
		text := strings.Repeat(" ", size)
		for _, body := range []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))} { // with its length, and without
			if code, answer := send(body); code != http.StatusOK || answer != fmt.Sprintf("%d bytes, <nil>", size) {
				t.Errorf("a body of %d bytes: %d %s", size, code, answer)
			}
		}
	}

	short := *fair.Arrivals
	short.Timeout = 100 * time.Millisecond
	fair.Arrivals = &short
	hasty := serve(fair)
	unfinished := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", hasty.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", 200<<10); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	answerOf := func(conn net.Conn) string {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	if answer := answerOf(unfinished()); !strings.HasPrefix(answer, "408") || !strings.Contains(answer, "did not arrive within 100ms: send it again") {
		t.Errorf("a body that never ends: %s", answer)
	}
	if working, waiting, _ := queue.Load(); working+waiting > 0 {
		t.Errorf("after all, %d work and %d wait", working, waiting)
	}
	if used := fair.Arrivals.Budget.Used(); used != 0 {
		t.Errorf("%d bytes are held", used)
	}
}

// TestArrivalsAreBounded: no more bytes arrive at once than there are.
func TestArrivalsAreBounded(t *testing.T) {
	t.Parallel()
	arrivals := &respond.Arrivals{Budget: fairqueue.NewBudget(1 << 10), Read: requestbody.Prefetch, Expected: requestbody.Expected}
	fair := respond.Limiter{Queue: fairqueue.NewQueue(fairqueue.Defaults(1)), Bodies: fairqueue.Bodies{}, Arrivals: arrivals}
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 2<<10)))
	fair.Serve(route.Space(key.Space("s")), answer, r, func(http.ResponseWriter, *http.Request) { t.Error("it is served") })
	if answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
