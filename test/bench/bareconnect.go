package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"golang.org/x/sync/errgroup"
)

// bareConnections measure the least that connecting costs: TLS with the same kind of key
// as the hub's, HTTP/2, an answer that stays open after its first line, and one request
// beside it. Server and clients are in this process.
type bareConnections struct {
	server *httptest.Server
	roots  *x509.CertPool
}

// mostBare are the most connections that are measured so: both ends are files of this process,
// which has those of the agents besides, and may not have more than some ten thousands.
const mostBare = 2000

// bareLine is about as long as a hello.
const bareLine = 400

func startBareConnections() (*bareConnections, error) {
	certificate, err := bareCertificate()
	if err != nil {
		return nil, err
	}
	b := &bareConnections{roots: x509.NewCertPool()}
	b.roots.AddCert(certificate.Leaf)
	line := make([]byte, bareLine)
	b.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(w, r.Body) // a client that is gone fails by itself
			return
		}
		_, _ = w.Write(line)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	b.server.EnableHTTP2 = true
	b.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	b.server.StartTLS()
	return b, nil
}

func bareCertificate() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func (b *bareConnections) close() {
	b.server.CloseClientConnections()
	b.server.Close()
}

// time has n clients connect at once and returns the seconds until all have what
// they asked for.
func (b *bareConnections) time(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transports := make([]*http.Transport, n)
	for i := range transports {
		transports[i] = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
		defer transports[i].CloseIdleConnections()
	}
	var group errgroup.Group
	start := time.Now()
	for _, t := range transports {
		group.Go(func() error { return b.connect(ctx, &client{base: b.server.URL, http: &http.Client{Transport: t}}) })
	}
	err := group.Wait()
	return time.Since(start).Seconds(), err
}

func (b *bareConnections) connect(ctx context.Context, c *client) error {
	body, err := c.open(ctx, http.MethodGet, "/", "", nil)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(body, make([]byte, bareLine))
	// The answer stays open until the context ends.
	context.AfterFunc(ctx, func() { _ = body.Close() })
	return errors.Join(err, c.do(ctx, http.MethodPost, "/", jsonBody, make([]byte, bareLine)))
}
