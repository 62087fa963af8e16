package protocol

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Identity is the identity of an agent that has joined.
type Identity struct {
	Join wire.Join
	// Certificate is the DER certificate of Key.
	Certificate []byte
	Key         *ecdsa.PrivateKey
	// Issued is the response that had the certificate.
	Issued wire.Issued
}

// NewKey returns a new key and a certificate request for it.
func NewKey() (k *ecdsa.PrivateKey, request []byte, err error) {
	if k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
		request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k)
	}
	return k, request, err
}

// Enrol exchanges a join token for a certificate of a new key.
func Enrol(ctx context.Context, join wire.Join) (*Identity, error) {
	k, request, err := NewKey()
	if err != nil {
		return nil, err
	}
	return EnrolWith(ctx, join, k, request)
}

// EnrolWith is Enrol with a key and a certificate request for it.
func EnrolWith(ctx context.Context, join wire.Join, k *ecdsa.PrivateKey, request []byte) (*Identity, error) {
	issued, err := issue(ctx, join, route.Enrol, wire.Enrol{Request: request})
	join.Token = ""
	return &Identity{Join: join, Certificate: issued.Certificate, Key: k, Issued: issued}, err
}

// Renew requests the next identity, with a new key.
func (i *Identity) Renew(ctx context.Context) (*Identity, error) {
	k, request, err := NewKey()
	if err != nil {
		return nil, err
	}
	return i.RenewWith(ctx, k, request)
}

// RenewWith is Renew with a key and a certificate request for it.
func (i *Identity) RenewWith(ctx context.Context, k *ecdsa.PrivateKey, request []byte) (*Identity, error) {
	renewal, err := wire.NewRenewal(i.Certificate, request, i.Key)
	if err != nil {
		return nil, err
	}
	issued, err := issue(ctx, i.Join, route.Agent(key.Location(i.Join.Location)).Path(route.Renew), renewal)
	return &Identity{Join: i.Join, Certificate: issued.Certificate, Key: k, Issued: issued}, err
}

// Client returns a client that authenticates by the certificate, with connections of its own.
func (i *Identity) Client() (*Client, error) {
	transport, err := transportTo(i.Join)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{i.Certificate}, PrivateKey: i.Key}}
	return &Client{Join: i.Join, HTTP: &http.Client{Transport: transport}, Identity: i}, nil
}

// Bearer returns the identity as a bearer token.
func (i *Identity) Bearer() (string, error) {
	return wire.NewBearer(i.Join.Location, i.Certificate, i.Key)
}

// BearerClient returns a client that authenticates by the bearer token only.
func (i *Identity) BearerClient() (*Client, error) {
	join := i.Join
	var err error
	if join.Token, err = i.Bearer(); err != nil {
		return nil, err
	}
	return TokenClient(join)
}

// TokenClient returns a client that sends the token of join as its bearer token.
func TokenClient(join wire.Join) (*Client, error) {
	transport, err := transportTo(join)
	return &Client{Join: join, HTTP: &http.Client{Transport: transport}}, err
}

func transportTo(join wire.Join) (*http.Transport, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(join.CA)) {
		return nil, errors.New("join token: ca holds no certificate")
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}, nil
}

// issue requests a certificate.
func issue(ctx context.Context, join wire.Join, path string, request any) (issued wire.Issued, err error) {
	transport, err := transportTo(join)
	if err != nil {
		return issued, err
	}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(request)
	if err != nil {
		return issued, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(join.Hub, "/")+path, bytes.NewReader(body))
	if err != nil {
		return issued, err
	}
	if join.Token != "" {
		r.Header.Set("Authorization", "Bearer "+join.Token)
	}
	r.Header.Set(wire.Header, wire.ProtocolVersion)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return issued, fmt.Errorf("%s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxEnrol))
	if err != nil {
		return issued, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return issued, &RefusedError{Call: path, Code: resp.StatusCode, Header: resp.Header, Body: text}
	}
	if err := json.Unmarshal(text, &issued); err != nil {
		return issued, fmt.Errorf("%s: %w", path, err)
	}
	return issued, nil
}
