package hub

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"orrery.dev/orrery/internal/enroll"
)

// serverCertificate is the hub's own certificate, which it makes anew in good
// time before it ends, and when the clock was set back to before it begins. It is
// safe for concurrent use.
type serverCertificate struct {
	ca    *enroll.Authority
	hosts []string
	now   func() time.Time

	mu   sync.Mutex
	cert *tls.Certificate
}

// get is for tls.Config.GetCertificate.
func (s *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.cert != nil && now.Before(renewal(s.cert)) && !now.Before(s.cert.Leaf.NotBefore) {
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
	s.cert = &cert
	return s.cert, nil
}

// renewal is when two thirds of a certificate's life are over.
func renewal(c *tls.Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	return c.Leaf.NotBefore.Add(life * 2 / 3)
}
