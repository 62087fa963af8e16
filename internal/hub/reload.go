package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// reloadEvery is how often the hub looks whether its authority, or what clients trust at
// an advertised URL, was replaced.
const reloadEvery = time.Second

// adminKubeconfig is the file of the operator's kubeconfig.
func (h *Hub) adminKubeconfig() string { return filepath.Join(h.config.DataDir, "admin.kubeconfig") }

// reload takes over what changes in the files of authorities, and has agents and the
// operator's kubeconfig told of it.
func (h *Hub) reload(ctx context.Context) error {
	said := ""
	for {
		if err := pause(ctx, reloadEvery); err != nil {
			return err
		}
		changed, err := h.reloadOnce()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			h.config.Logger.Error("what has changed in the files of authorities can't be taken over; the hub goes on as before", "error", err)
		case err == nil:
			said = ""
		}
		if changed {
			h.config.Logger.Info("the authorities that are trusted, or the one that signs, have changed", "signs", h.ca.Signer().SerialNumber)
		}
	}
}

// reloadOnce says whether anything has changed.
func (h *Hub) reloadOnce() (changed bool, err error) {
	authority, err := h.ca.Reload()
	if err != nil {
		return false, err
	}
	if authority {
		if err := h.writeAdminKubeconfig(h.adminKubeconfig()); err != nil {
			return false, err
		}
		h.clients.closeUntrusted(h.ca.Pool())
	}
	trusted, err := h.endpoints.Reload()
	if authority || trusted {
		h.sessions.PokeAll()
	}
	return authority || trusted, err
}

// clients are the open connections, once they have begun a request. It is safe for
// concurrent use.
type clients struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// note is for http.Server.ConnState.
func (c *clients) note(conn net.Conn, state http.ConnState) {
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

// closeUntrusted closes the connections of clients that have shown a certificate which is
// trusted no more: watches over them would go on.
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
