package hubclient

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/wire"
)

// TestProxyThatSaysTooMuch checks that a proxy cannot put more than one short line of printable
// characters into the agent's log and status.
func TestProxyThatSaysTooMuch(t *testing.T) {
	hub := somewhere(t)
	for name, answer := range map[string]string{
		"a long status":    "HTTP/1.1 403 " + strings.Repeat("no ", 1<<20) + "\r\n\r\n",
		"long headers":     "HTTP/1.1 403 Forbidden\r\nX: " + strings.Repeat("x", 4<<20) + "\r\n\r\n",
		"no HTTP":          strings.Repeat("garbage", 1<<20) + "\r\n\r\n",
		"for the terminal": "HTTP/1.1 403 \x1b[2J\x1b]0;owned\x07\r\n\r\n",
	} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, answer) // the agent may close the connection before the end
			}
		}()
		client, err := New(Config{
			Join:  wire.Join{Hub: hub.URL, CA: hub.CA, Location: "a", Token: "t"},
			Proxy: Proxy{URL: "http://" + listener.Addr().String()}, Log: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		(&Renewer{client: client}).lasting("t")
		_, err = client.do(t.Context(), http.MethodGet, "desired", nil, http.NoBody)
		if err == nil {
			t.Fatalf("%s: the request succeeded, want an error", name)
		}
		if text := err.Error(); len(text) > 1024 || strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("%s: the error has %d bytes: %.200q", name, len(text), text)
		}
		_ = listener.Close() // ends the goroutine if it still accepts
		<-done
	}
}
