package auth

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/storage/table"
)

const (
	// knownFor is how long an accepted certificate is not verified again, and maxKnown the size of
	// the cache.
	knownFor = time.Minute
	maxKnown = 4096
)

// knownCertificates authenticates like next, and caches accepted certificates for a limited time: a
// client presents the same one with each request, and verifying a signature is expensive. The
// handshake has already proved that the client has the key. Nothing is cached beyond the expiry of
// a certificate, and refusals are not cached.
type knownCertificates struct {
	next  authenticator.Request
	table *table.Table
	now   func() time.Time
	known *utilcache.LRUExpireCache
	// roots returns the trusted authorities; nil if they never change.
	roots func() *x509.CertPool
}

// shown is a certificate, with the authorities that verified it.
type shown struct {
	leaf  [sha256.Size]byte
	roots *x509.CertPool
}

func newKnownCertificates(next authenticator.Request, t *table.Table, now func() time.Time) *knownCertificates {
	return &knownCertificates{next: next, table: t, now: now, known: utilcache.NewLRUExpireCacheWithClock(maxKnown, clockFunc(now))}
}

// AuthenticateRequest implements authenticator.Request.
func (k *knownCertificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return k.next.AuthenticateRequest(r)
	}
	response, ok, err := k.verify(r)
	if err != nil || !ok {
		return nil, false, err
	}
	leaf := r.TLS.PeerCertificates[0]
	if err := limit(r.Context(), k.table, enroll.ScopeOf(leaf)); err != nil {
		return nil, false, err
	}
	recordCredential(r.Context(), func(c *Credential) { c.Until = leaf.NotAfter })
	return response, true, nil
}

// verify verifies a client's certificate, unless it is cached.
func (k *knownCertificates) verify(r *http.Request) (*authenticator.Response, bool, error) {
	leaf := shown{leaf: sha256.Sum256(r.TLS.PeerCertificates[0].Raw)}
	if k.roots != nil {
		leaf.roots = k.roots()
	}
	if known, ok := k.known.Get(leaf); ok {
		response := *known.(*authenticator.Response)
		return &response, true, nil
	}
	response, ok, err := k.next.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, cmp.Or(k.refusalFor(r.TLS.PeerCertificates[0], err), err)
	}
	valid := knownFor
	for _, c := range r.TLS.PeerCertificates { // including those of the issuers
		valid = min(valid, c.NotAfter.Sub(k.now()))
	}
	remembered := *response
	k.known.Add(leaf, &remembered, valid)
	return response, true, nil
}

// refusalFor returns the error about its certificate for a client; nil if there is none.
func (k *knownCertificates) refusalFor(c *x509.Certificate, err error) error {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && k.now().After(c.NotAfter):
		return toldError(fmt.Sprintf("the client certificate expired at %s", c.NotAfter.UTC().Format(time.RFC3339)))
	case errors.As(err, &x509.UnknownAuthorityError{}):
		return toldError("the client certificate is not of this hub")
	}
	return nil
}

// clockFunc is a clock from a function.
type clockFunc func() time.Time

// Now returns the time.
func (f clockFunc) Now() time.Time { return f() }
