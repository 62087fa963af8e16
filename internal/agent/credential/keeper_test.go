package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// issuer issues a certificate for each request.
type issuer struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	made int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t: t, key: key}
}

func (i *issuer) issue(request []byte) wire.Issued {
	i.t.Helper()
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		i.t.Fatal(err)
	}
	i.made++
	template := &x509.Certificate{SerialNumber: big.NewInt(i.made), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Unix(2e9, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	return wire.Issued{Certificate: der, RenewAfterMilliseconds: 60_000}
}

func open(t *testing.T, dir string) *Keeper {
	t.Helper()
	k, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func request(t *testing.T, k *Keeper) []byte {
	t.Helper()
	r, err := k.Request()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keyOf(t *testing.T, request []byte) []byte {
	t.Helper()
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	return csr.RawSubjectPublicKeyInfo
}

// TestKeeper enrols and renews a credential, and reopens the directory after each step, as
// after a kill of the process.
func TestKeeper(t *testing.T) {
	dir, ca, now := filepath.Join(t.TempDir(), "data"), newIssuer(t), time.Now()
	k := open(t, dir)
	if k.Current() != nil || k.JoinedBy("token") {
		t.Fatal("a new directory has a credential")
	}
	requested := keyOf(t, request(t, k))
	for range 2 { // the process is killed before the response arrives
		k = open(t, dir)
		if again := keyOf(t, request(t, k)); !bytes.Equal(again, requested) {
			t.Fatal("after a lost response the request has another key")
		}
	}
	id, err := k.Take(ca.issue(request(t, k)), "token", now)
	if err != nil {
		t.Fatal(err)
	}
	k = open(t, dir)
	if got := k.Current(); got == nil || !bytes.Equal(got.cert.Raw, id.cert.Raw) || !k.JoinedBy("token") || k.JoinedBy("other") || k.JoinedBy("") {
		t.Fatal("the credential is not on disk after Take")
	}
	next := keyOf(t, request(t, k))
	if bytes.Equal(next, requested) {
		t.Fatal("the request for the next certificate has the key of the current one")
	}
	if _, err := k.Take(wire.Issued{Certificate: id.cert.Raw}, "", now); err == nil {
		t.Error("Take accepts the certificate of another key")
	}
	if _, err := k.Take(wire.Issued{}, "", now); err == nil {
		t.Error("Take accepts a response without a certificate")
	}
	if open(t, dir).Current().cert.SerialNumber.Int64() != 1 {
		t.Error("a rejected certificate is on disk")
	}
	if _, err := k.Take(ca.issue(request(t, k)), "", now); err != nil || !open(t, dir).JoinedBy("token") || open(t, dir).Current().cert.SerialNumber.Int64() != 2 {
		t.Errorf("the credential was not renewed: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v: %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err == nil {
		t.Error("Open accepts a file that is not JSON")
	}
}

// TestDue checks the time until the renewal, also for a clock that was set back.
func TestDue(t *testing.T) {
	obtained := time.Unix(1_900_000_000, 0)
	id := &Identity{Obtained: obtained, RenewAfter: time.Hour}
	for after, want := range map[time.Duration]time.Duration{
		0: time.Hour, 20 * time.Minute: 40 * time.Minute, time.Hour: 0, 24 * time.Hour: 0, -time.Second: 0, -1000 * time.Hour: 0,
	} {
		if got := id.Due(obtained.Add(after)); got != want {
			t.Errorf("%s after the issue the renewal is due in %s, want %s", after, got, want)
		}
	}
}

// TestDiskFull checks that a credential that cannot be stored is not used.
func TestDiskFull(t *testing.T) {
	dir, ca := t.TempDir(), newIssuer(t)
	k := open(t, dir)
	if _, err := k.Take(ca.issue(request(t, k)), "token", time.Now()); err != nil {
		t.Fatal(err)
	}
	requested := request(t, k)
	// A directory with the name of the temporary file makes writing fail.
	if err := os.Mkdir(filepath.Join(dir, file+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Take(ca.issue(requested), "", time.Now()); err == nil || k.Current().cert.SerialNumber.Int64() != 1 {
		t.Errorf("Take returned %v; the current certificate is number %d, want an error and number 1", err, k.Current().cert.SerialNumber)
	}
	if err := os.Remove(filepath.Join(dir, file+".new")); err != nil {
		t.Fatal(err)
	}
	if again := request(t, k); !bytes.Equal(keyOf(t, again), keyOf(t, requested)) {
		t.Error("after the failure the request has another key")
	}
}

// TestSealed checks that with a secret the file is encrypted, also one that was stored in
// plain text before, and that it cannot be opened without that secret.
func TestSealed(t *testing.T) {
	secret, other := []byte("a secret from elsewhere"), []byte("another secret from elsewhere")
	dir, ca := t.TempDir(), newIssuer(t)
	plain := open(t, dir)
	id, err := plain.Take(ca.issue(request(t, plain)), "token", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(id.key)
	if err != nil {
		t.Fatal(err)
	}
	read := func() []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	encoded := []byte(base64.StdEncoding.EncodeToString(key))
	if !bytes.Contains(read(), encoded) {
		t.Fatal("without a secret the file does not contain the encoded key: the test searches for the wrong bytes")
	}
	for range 2 { // first a file in plain text, then an encrypted one
		k, err := Open(dir, secret)
		if err != nil {
			t.Fatal(err)
		}
		if now := k.Current(); !bytes.Equal(now.cert.Raw, id.cert.Raw) || !k.JoinedBy("token") {
			t.Fatal("the opened credential is not the stored one")
		}
		if b := read(); bytes.Contains(b, encoded) || bytes.Contains(b, []byte("certificate")) {
			t.Fatalf("the file is not encrypted: %s", b)
		}
		if id, err = k.Take(ca.issue(request(t, k)), "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range [][]byte{nil, other} {
		if _, err := Open(dir, wrong); !errors.Is(err, ErrKey) {
			t.Errorf("opened with secret %q: %v, want ErrKey", wrong, err)
		}
	}
	damaged := bytes.Replace(read(), []byte(`"sealed":"`), []byte(`"sealed":"AAAA`), 1)
	if err := os.WriteFile(filepath.Join(dir, file), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, secret); err == nil || errors.Is(err, ErrKey) {
		t.Errorf("opened a damaged file: %v, want another error than ErrKey", err)
	}
}
