package enroll

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
)

func requestPEM(t *testing.T, signer any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// hugeRequest is a request with a key of RSA whose signature takes long to verify.
func hugeRequest(t *testing.T, bytes int) []byte {
	t.Helper()
	n := make([]byte, bytes)
	_, _ = rand.Read(n) // it never fails
	n[0], n[bytes-1] = 0xff, n[bytes-1]|1
	spki, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 1<<31 - 1})
	if err != nil {
		t.Fatal(err)
	}
	type info struct {
		Version    int
		Subject    asn1.RawValue
		Key        asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	type algorithm struct {
		ID         asn1.ObjectIdentifier
		Parameters asn1.RawValue
	}
	der, err := asn1.Marshal(struct {
		Info      info
		Algorithm algorithm
		Signature asn1.BitString
	}{
		info{Subject: asn1.RawValue{FullBytes: []byte{0x30, 0}}, Key: asn1.RawValue{FullBytes: spki}},
		algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, asn1.NullRawValue},
		asn1.BitString{Bytes: n[:bytes-1], BitLength: (bytes - 1) * 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestCostOfRequests: keys that clients have are taken, and others before their signatures
// are verified, which may take long.
func TestCostOfRequests(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []any{small, curve, edwards} {
		if _, err := publicKeyOf(requestPEM(t, k)); err != nil {
			t.Errorf("a key of %T: %v", k, err)
		}
	}
	for size, verified := range map[int]bool{1024: true, 1025: false, 30000: false} {
		_, err := publicKeyOf(hugeRequest(t, size))
		if err == nil || errors.Is(err, rsa.ErrVerification) != verified {
			t.Errorf("a key of %d bytes: %v; its signature is verified, want %v", size, err, verified)
		}
	}
}
