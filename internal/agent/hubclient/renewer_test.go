package hubclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/credential"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestRenewalsAreSpaced checks that a hub that always requests a renewal, as with another clock or
// authority than a second hub, gets at most one renewal per renewPause.
func TestRenewalsAreSpaced(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(request []byte) wire.Issued {
		csr, err := x509.ParseCertificateRequest(request)
		if err != nil {
			t.Error(err)
			return wire.Issued{}
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, k)
		if err != nil {
			t.Error(err)
		}
		return wire.Issued{Certificate: der, RenewAfterMilliseconds: time.Hour.Milliseconds()}
	}
	var renewals atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.Header, wire.ProtocolVersion)
		w.Header().Set(wire.RenewHeader, "now")
		if strings.HasSuffix(r.URL.Path, "/renew") {
			var renewal wire.Renewal
			if err := json.NewDecoder(r.Body).Decode(&renewal); err != nil {
				t.Error(err)
			}
			renewals.Add(1)
			_ = json.NewEncoder(w).Encode(issue(renewal.Request)) // the client may have disconnected
		}
	}))
	defer server.Close()

	keeper, err := credential.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := keeper.Request()
	if err != nil {
		t.Fatal(err)
	}
	const token = "orr_j_a.t"
	if _, err := keeper.Take(issue(request), token, time.Now()); err != nil {
		t.Fatal(err)
	}
	client, err := New(Config{Join: wire.Join{Hub: server.URL, CA: pemOf(server.Certificate()), Location: "a", Token: token}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	renewer, err := NewRenewer(Link{Client: client, State: NewState(), Log: quiet}, keeper, false)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- renewer.Run(ctx) }()
	send := func() {
		t.Helper()
		body, err := client.do(ctx, http.MethodPost, "reports", nil, http.NoBody)
		if err == nil {
			err = body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for renewals.Load() == 0 { // each response of the hub requests a renewal
		send()
	}
	for range 200 {
		send()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := renewals.Load(); n > 1+int64(time.Since(began)/renewPause) {
		t.Errorf("%d renewals in %s", n, time.Since(began))
	}
}
