package hub_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestWatchOverWebSocket follows a space as browsers do, and as Kubernetes lets them.
func TestWatchOverWebSocket(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addConfigMap("shown", nil, "1")
	c := r.as("op", masters)
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := c.Transport.(persistent).RoundTripper.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", u.Host, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /spaces/s/api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", u.Host, r.URL); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the answer is %s", resp.Status)
	}
	for received := ""; !strings.Contains(received, `"name":"shown"`); {
		b, err := reader.ReadByte() // of frames, which are not masked on the way down
		if err != nil {
			t.Fatalf("after %q: %v", received, err)
		}
		received += string(rune(b))
	}
}
