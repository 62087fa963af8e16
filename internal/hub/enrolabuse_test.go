package hub_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// strangers opens connections to the hub without any credential, until the test ends.
func (r *running) strangers(join wire.Join) func() *tls.Conn {
	r.t.Helper()
	u, err := url.Parse(join.Hub)
	if err != nil {
		r.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(join.CA))
	return func() *tls.Conn {
		r.t.Helper()
		conn, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// TestSlowStrangers: unauthenticated clients that never complete their requests do not delay agents that
// join or renew.
func TestSlowStrangers(t *testing.T) {
	t.Parallel() // it waits much of the time
	const limit = 4
	r := start(t, t.TempDir(), func(c *hub.Config) { c.MaxWrites = limit })
	r.addLocation("a", nil)
	join := r.enrol("a")
	connect := r.strangers(join)
	var last *tls.Conn
	for i := range 10 * limit {
		last = connect()
		path := []string{route.Enrol, route.Agent("a").Path(route.Renew)}[i%2]
		if _, err := fmt.Fprintf(last, "POST %s HTTP/1.1\r\nHost: hub\r\n%s: %s\r\nContent-Length: 100\r\n\r\n{", path, wire.Header, wire.ProtocolVersion); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	id, err := protocol.Enrol(t.Context(), join)
	if err != nil {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	if _, err := id.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	// They are not waited for much longer than a slow link takes.
	if err := last.SetReadDeadline(time.Now().Add(2 * timeout)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(last), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body) // as much as comes
	_ = resp.Body.Close()
	if resp.StatusCode < 400 || strings.Contains(string(body), "goroutine") {
		t.Errorf("it is answered %d %s", resp.StatusCode, body)
	}
}
