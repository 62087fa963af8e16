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

// issuer signs what is asked for.
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

// TestKeeper takes a keeper through its life; at each step the process may be killed.
func TestKeeper(t *testing.T) {
	dir, by, now := filepath.Join(t.TempDir(), "data"), newIssuer(t), time.Now()
	k := open(t, dir)
	if k.Current() != nil || k.JoinedBy("token") {
		t.Fatal("a new directory has a credential")
	}
	asked := keyOf(t, request(t, k))
	for range 2 { // killed before the answer is there
		k = open(t, dir)
		if again := keyOf(t, request(t, k)); !bytes.Equal(again, asked) {
			t.Fatal("after a lost answer another key is asked for")
		}
	}
	id, err := k.Take(by.issue(request(t, k)), "token", now)
	if err != nil {
		t.Fatal(err)
	}
	k = open(t, dir)
	if got := k.Current(); got == nil || !bytes.Equal(got.cert.Raw, id.cert.Raw) || !k.JoinedBy("token") || k.JoinedBy("other") || k.JoinedBy("") {
		t.Fatal("the credential is not on disk when it is used")
	}
	next := keyOf(t, request(t, k))
	if bytes.Equal(next, asked) {
		t.Fatal("the next credential is asked for the same key")
	}
	if _, err := k.Take(wire.Issued{Certificate: id.cert.Raw}, "", now); err == nil {
		t.Error("the certificate of another key is taken")
	}
	if _, err := k.Take(wire.Issued{}, "", now); err == nil {
		t.Error("no certificate is taken")
	}
	if open(t, dir).Current().cert.SerialNumber.Int64() != 1 {
		t.Error("what was not taken is on disk")
	}
	if _, err := k.Take(by.issue(request(t, k)), "", now); err != nil || !open(t, dir).JoinedBy("token") || open(t, dir).Current().cert.SerialNumber.Int64() != 2 {
		t.Errorf("renewed: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err == nil {
		t.Error("garbage is read")
	}
}

// TestDue: how long ago a credential was obtained is what the clock says, if that can be.
func TestDue(t *testing.T) {
	obtained := time.Unix(1_900_000_000, 0)
	id := &Identity{Obtained: obtained, RenewAfter: time.Hour}
	for after, want := range map[time.Duration]time.Duration{
		0: time.Hour, 20 * time.Minute: 40 * time.Minute, time.Hour: 0, 24 * time.Hour: 0, -time.Second: 0, -1000 * time.Hour: 0,
	} {
		if got := id.Due(obtained.Add(after)); got != want {
			t.Errorf("%s after: in %s, want %s", after, got, want)
		}
	}
}

// TestDiskFull: a credential that can't be kept is not used.
func TestDiskFull(t *testing.T) {
	dir, by := t.TempDir(), newIssuer(t)
	k := open(t, dir)
	if _, err := k.Take(by.issue(request(t, k)), "token", time.Now()); err != nil {
		t.Fatal(err)
	}
	asked := request(t, k)
	// Nothing can be written where a directory is in the way.
	if err := os.Mkdir(filepath.Join(dir, file+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Take(by.issue(asked), "", time.Now()); err == nil || k.Current().cert.SerialNumber.Int64() != 1 {
		t.Errorf("%v; it goes on with %d", err, k.Current().cert.SerialNumber)
	}
	if err := os.Remove(filepath.Join(dir, file+".new")); err != nil {
		t.Fatal(err)
	}
	if again := request(t, k); !bytes.Equal(keyOf(t, again), keyOf(t, asked)) {
		t.Error("after that another key is asked for")
	}
}

// TestSealed: with a secret nothing of a credential can be read, also of one that was there
// before, and without that secret it is not used.
func TestSealed(t *testing.T) {
	secret, other := []byte("a secret from elsewhere"), []byte("another secret from elsewhere")
	dir, by := t.TempDir(), newIssuer(t)
	plain := open(t, dir)
	id, err := plain.Take(by.issue(request(t, plain)), "token", time.Now())
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
		t.Fatal("without a secret the key is not in the file: the test looks for the wrong thing")
	}
	for range 2 { // what was there before, and what a restart finds
		k, err := Open(dir, secret)
		if err != nil {
			t.Fatal(err)
		}
		if now := k.Current(); !bytes.Equal(now.cert.Raw, id.cert.Raw) || !k.JoinedBy("token") {
			t.Fatal("it is another credential")
		}
		if b := read(); bytes.Contains(b, encoded) || bytes.Contains(b, []byte("certificate")) {
			t.Fatalf("%s", b)
		}
		if id, err = k.Take(by.issue(request(t, k)), "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range [][]byte{nil, other} {
		if _, err := Open(dir, wrong); !errors.Is(err, ErrKey) {
			t.Errorf("with %q: %v", wrong, err)
		}
	}
	damaged := bytes.Replace(read(), []byte(`"sealed":"`), []byte(`"sealed":"AAAA`), 1)
	if err := os.WriteFile(filepath.Join(dir, file), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, secret); err == nil || errors.Is(err, ErrKey) {
		t.Errorf("damaged: %v", err)
	}
}
