package hubclient

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"time"
)

// maxHeader bounds the headers of a response, also of a proxy, in bytes.
const maxHeader = 64 << 10

type endpointKey struct{}

// withEndpoint returns a context whose requests are sent to an endpoint.
func withEndpoint(ctx context.Context, e endpoint) context.Context {
	return context.WithValue(ctx, endpointKey{}, e)
}

// transport sends requests, each to the endpoint of its context. The certificate of an endpoint
// is verified only with the authorities of that endpoint.
type transport struct {
	connections  *connections
	proxy        Proxy
	certificates []tls.Certificate

	mu         sync.Mutex
	transports map[trust]*http.Transport
}

// trust identifies the authorities with which certificates are verified.
type trust struct {
	ca     string
	system bool
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := r.Context().Value(endpointKey{}).(endpoint) //nolint:forcetypeassert // all requests are sent by Client.over and Mover.probe
	return t.trusting(e).RoundTrip(r)
}

// trusting returns the transport with the authorities of an endpoint. If there are too many
// transports, the others are closed when their requests have ended.
func (t *transport) trusting(e endpoint) *http.Transport {
	k := trust{e.CA, e.SystemRoots}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.transports[k]; one != nil {
		return one
	}
	for k, one := range t.transports {
		if len(t.transports) > maxFormer {
			one.CloseIdleConnections()
			delete(t.transports, k)
		}
	}
	one := &http.Transport{
		Proxy:                  t.proxy.urlFor,
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
	if t.transports == nil {
		t.transports = map[trust]*http.Transport{}
	}
	t.transports[k] = one
	return one
}

// CloseIdleConnections closes idle connections; http.Client calls it.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.transports {
		one.CloseIdleConnections()
	}
}
