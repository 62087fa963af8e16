package access

import (
	"crypto/sha256"
	"net/http"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

const (
	// knownFor is for how long an accepted certificate is not verified again, and
	// maxKnown how many are remembered.
	knownFor = time.Minute
	maxKnown = 4096
)

// knownCertificates authenticates as next does, and caches for a while which
// certificates it has accepted: a client shows the same one with each request, and
// verifying its signature takes longer than many requests. The handshake has already
// proved that the client holds the key. Nothing is cached beyond the end of a
// certificate, and refusals are not cached.
type knownCertificates struct {
	next  authenticator.Request
	now   func() time.Time
	known *utilcache.LRUExpireCache
}

func newKnownCertificates(next authenticator.Request, now func() time.Time) *knownCertificates {
	return &knownCertificates{next: next, now: now, known: utilcache.NewLRUExpireCacheWithClock(maxKnown, clockFunc(now))}
}

// AuthenticateRequest implements authenticator.Request.
func (k *knownCertificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return k.next.AuthenticateRequest(r)
	}
	leaf := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	if known, ok := k.known.Get(leaf); ok {
		response := *known.(*authenticator.Response)
		return &response, true, nil
	}
	response, ok, err := k.next.AuthenticateRequest(r)
	if err != nil || !ok {
		return response, ok, err
	}
	valid := knownFor
	for _, c := range r.TLS.PeerCertificates { // also those of the issuers
		valid = min(valid, c.NotAfter.Sub(k.now()))
	}
	remembered := *response
	k.known.Add(leaf, &remembered, valid)
	return response, true, nil
}

// clockFunc is a clock made of a function.
type clockFunc func() time.Time

// Now is the time.
func (f clockFunc) Now() time.Time { return f() }
