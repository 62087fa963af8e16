package advertise

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/auth/enroll"
)

// Serve configures the certificate of a server and the authentication of client certificates. The
// server sends clients the accepted authorities, which change when the hub's own is replaced.
func (c *Endpoints) Serve(s *http.Server) {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: c.cert.get,
		ClientCAs:      c.config.Authority.Pool(),
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.ClientCAs = c.config.Authority.Pool()
		return now, nil
	}
	s.TLSConfig, s.ConnState = config, c.clients.record
}

// serverCertificate is the hub's server certificate. It is renewed well before it expires, if the
// clock was set back to before its creation, and when another authority signs. It is safe for
// concurrent use.
type serverCertificate struct {
	ca    *enroll.Authority
	hosts []string
	now   func() time.Time

	mu   sync.Mutex
	cert *tls.Certificate
	// signer is the authority that signed cert.
	signer *x509.Certificate
	// made is when cert was created, and renewal when two thirds of its lifetime are over.
	made, renewal time.Time
}

// get implements tls.Config.GetCertificate.
func (s *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().Round(0) // use the wall clock, like clients
	signer := s.ca.Signer()
	if s.cert != nil && s.signer == signer && now.Before(s.renewal) && !now.Before(s.made) {
		return s.cert, nil
	}
	pair, err := s.ca.Server(s.hosts)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("use the server's certificate: %w", err)
	}
	s.signer = signer
	s.cert, s.made, s.renewal = &cert, now, now.Add(cert.Leaf.NotAfter.Sub(now)*2/3)
	return s.cert, nil
}
