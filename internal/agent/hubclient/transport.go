package hubclient

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"time"
)

// maxHeader bounds the headers of an answer, of a proxy's too, in bytes.
const maxHeader = 64 << 10

type endpointKey struct{}

// by says which endpoint a request is sent to.
func by(ctx context.Context, e endpoint) context.Context {
	return context.WithValue(ctx, endpointKey{}, e)
}

// transport sends requests, each to the endpoint of its context: certificates of one are
// not verified by what is trusted at another.
type transport struct {
	connections  *connections
	proxy        Proxy
	certificates []tls.Certificate

	mu sync.Mutex
	of map[trust]*http.Transport
}

// trust is by what certificates are verified.
type trust struct {
	ca     string
	system bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := r.Context().Value(endpointKey{}).(endpoint) //nolint:forcetypeassert // all requests are made by Client.do and Mover
	return t.trusting(e).RoundTrip(r)
}

// trusting is the transport that trusts what an endpoint says. Those of others end when
// what goes on over them has ended.
func (t *transport) trusting(e endpoint) *http.Transport {
	k := trust{e.CA, e.SystemRoots}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.of[k]; one != nil {
		return one
	}
	for k, one := range t.of {
		if len(t.of) > maxFormer {
			one.CloseIdleConnections()
			delete(t.of, k)
		}
	}
	one := &http.Transport{
		Proxy:                  t.proxy.of,
		OnProxyConnectResponse: refusal,
		DialContext:            t.connections.dial,
		TLSClientConfig:        &tls.Config{RootCAs: e.roots, Certificates: t.certificates, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: connectionSilence, PingTimeout: connectionAnswer},
		ResponseHeaderTimeout:  hubTimeout,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    20 * time.Second,
		IdleConnTimeout:        2 * time.Minute,
	}
	if t.of == nil {
		t.of = map[trust]*http.Transport{}
	}
	t.of[k] = one
	return one
}

// CloseIdleConnections is for http.Client.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.of {
		one.CloseIdleConnections()
	}
}
