package env

import (
	"context"
	"net"
	"net/http/httptest"
)

// Serve starts a server of a test's own, with TLS and HTTP/2, and ends it with the test:
// what it still answers ends first, since Close waits for that, and a client that goes on
// begins its watches again meanwhile.
func Serve(t T, server *httptest.Server) {
	requests, end := context.WithCancel(context.Background())
	server.Config.BaseContext = func(net.Listener) context.Context { return requests }
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		end()
		server.Close()
	})
}
