package advertise

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// clients are the open connections that have sent a request. It is safe for concurrent use.
type clients struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// record implements http.Server.ConnState.
func (c *clients) record(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		if c.open == nil {
			c.open = map[net.Conn]struct{}{}
		}
		c.open[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	default:
	}
}

// closeUntrusted closes connections whose client certificate is no longer trusted; their watches
// would otherwise continue.
func (c *clients) closeUntrusted(roots *x509.CertPool) {
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, conn := range open {
		secure, ok := conn.(*tls.Conn)
		if !ok {
			continue
		}
		shown := secure.ConnectionState().PeerCertificates
		if len(shown) == 0 {
			continue
		}
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, CurrentTime: shown[0].NotBefore.Add(time.Second)}
		if _, err := shown[0].Verify(options); err != nil {
			_ = conn.Close() // the client notices
		}
	}
}
