package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
)

// certified returns a key and a certificate for it.
func certified(t *testing.T) (certificate []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}}
	if certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// TestBearersAndRenewals: both are created with the key of a certificate, and one is never accepted
// as the other.
func TestBearersAndRenewals(t *testing.T) {
	certificate, key := certified(t)
	others, otherKey := certified(t)
	bearer, err := NewBearer("paris", certificate, key)
	if err != nil || !IsBearer(bearer) || !strings.HasPrefix(bearer, "orr_b_paris.") {
		t.Fatalf("%q, %v", bearer, err)
	}
	if cert, err := ParseBearer(bearer); err != nil || !bytes.Equal(cert.Raw, certificate) {
		t.Errorf("it is read as %v, %v", cert, err)
	}
	stolen, err := NewBearer("paris", certificate, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(bearer, ".")
	for _, bad := range []string{"", "orr_b_", "paris.secret", stolen, strings.Join(fields[:2], "."), fields[0] + ".!." + fields[2], bearer + ".x", strings.TrimPrefix(bearer, "orr_b_")} {
		if _, err := ParseBearer(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	renewal, err := NewRenewal(certificate, []byte("request"), key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := renewal.Verify(); err != nil || !bytes.Equal(cert.Raw, certificate) {
		t.Errorf("%v, %v", cert, err)
	}
	shown, err := sign(key, bearerSigned, certificate)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]Renewal{
		"another request": {certificate, []byte("other"), renewal.Proof}, "another's certificate": {others, renewal.Request, renewal.Proof},
		"no proof": {certificate, renewal.Request, nil}, "no certificate": {nil, renewal.Request, renewal.Proof},
		"what was signed for a bearer": {certificate, certificate, shown},
	} {
		if _, err := bad.Verify(); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
}
