package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestAuthoritySurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	a, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.PEM(), b.PEM()) {
		t.Fatal("a restart made another authority")
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("ca.key: %v, %v; want mode 0600", info.Mode(), err)
	}
	pair, err := b.Server([]string{"hub.example", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"hub.example", "127.0.0.1"} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host}); err != nil {
			t.Errorf("verify for %q: %v", host, err)
		}
	}
}

// TestLostFiles: without its certificate an authority is what it was, by its key, and
// agents and clients believe what it issues; its key is never made anew beside what it has
// signed, nor replaced.
func TestLostFiles(t *testing.T) {
	dir := t.TempDir()
	before, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	lose := func(name string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	key := text(keyFile)
	lose(certFile)
	after, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := after.Server([]string{"hub.example"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: before.Pool(), DNSName: "hub.example"}); err != nil || text(keyFile) != key {
		t.Errorf("it is another authority: %v", err)
	}
	if _, err := Rotate(dir, Announce, time.Now()); err != nil {
		t.Fatal(err)
	}
	key = text(keyFile)
	lose(certFile)
	if _, err := LoadOrCreate(dir, time.Now); err == nil || text(keyFile) != key {
		t.Errorf("of two keys nobody knows which was trusted: %v", err)
	}
	for _, damaged := range []string{"", key[:len(key)/4]} {
		if err := os.WriteFile(filepath.Join(dir, keyFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreate(dir, time.Now); err == nil || text(keyFile) != damaged {
			t.Errorf("what is left of a key is replaced: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, certFile), before.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	lose(keyFile)
	if _, err := LoadOrCreate(dir, time.Now); err == nil {
		t.Error("it signs without a key")
	}
}

// TestIssuedByAClockAhead shows that what is issued while the clock is a year ahead
// is valid today, too.
func TestIssuedByAClockAhead(t *testing.T) {
	now := time.Now()
	a, err := LoadOrCreate(t.TempDir(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	today := now
	now = now.Add(365 * 24 * time.Hour)
	pair, err := a.Server([]string{"hub.example"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, clock := range []time.Time{today, now} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "hub.example", CurrentTime: clock}); err != nil {
			t.Errorf("at %s: %v", clock, err)
		}
	}
}

func TestClientNamesUserAndGroups(t *testing.T) {
	a, err := LoadOrCreate(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Client("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if s := cert.Leaf.Subject; s.CommonName != "admin" || len(s.Organization) != 1 || s.Organization[0] != "system:masters" {
		t.Fatalf("subject is %v", s)
	}
}

// TestAgentCertificates: what a certificate says of an agent is read back, if this
// authority has signed it, whatever the time is.
func TestAgentCertificates(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	a, err := LoadOrCreate(t.TempDir(), clock)
	if err != nil {
		t.Fatal(err)
	}
	other, err := LoadOrCreate(t.TempDir(), clock)
	if err != nil {
		t.Fatal(err)
	}
	request, public, digest := requestOf(t, elliptic.P256())
	want := Credential{Location: "edge1", UID: "0a1b", Number: 7, Joined: 3, Key: digest}
	parse := func(a *Authority, c Credential, public *ecdsa.PublicKey) *x509.Certificate {
		t.Helper()
		der, err := a.Agent(c, public, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil || !IsAgent(cert) {
			t.Fatalf("%v, agent's: %v", err, IsAgent(cert))
		}
		return cert
	}
	cert := parse(a, want, public)
	want.NotAfter, want.Signer = now.Add(time.Hour).UTC().Truncate(time.Second), a.Signer()
	for _, years := range []int{0, 3, -6} {
		now = now.AddDate(years, 0, 0)
		if got, err := a.Credential(cert); err != nil || got != want {
			t.Errorf("it is read as %+v, %v; want %+v", got, err, want)
		}
	}
	for _, bad := range []*x509.Certificate{
		parse(other, want, public), parse(a, Credential{Location: "edge1", UID: "0a1b"}, public),
		parse(a, Credential{Location: "Edge 1", UID: "u", Number: 1, Joined: 1}, public), parse(a, Credential{Location: "edge1", Number: 1, Joined: 1}, public),
		parse(a, Credential{Location: "edge1", UID: "u", Number: 1, Joined: 2}, public),
	} {
		if got, err := a.Credential(bad); err == nil {
			t.Errorf("%s is read as %+v", bad.Subject, got)
		}
	}
	pair, err := a.Client(UserPrefix+"edge1", Agents)
	if err != nil {
		t.Fatal(err)
	}
	person, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil || !IsAgent(person.Leaf) {
		t.Fatal(err)
	}
	if got, err := a.Credential(person.Leaf); err == nil {
		t.Errorf("a person's is read as %+v", got)
	}
	for what, bad := range map[string][]byte{
		"garbage": []byte("x"), "no signature": append(slices.Clone(request[:len(request)-1]), request[len(request)-1]^1), "another curve": first(requestOf(t, elliptic.P384())),
	} {
		if _, _, err := KeyOf(bad); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}

func first(request []byte, _ *ecdsa.PublicKey, _ string) []byte { return request }

// requestOf is a certificate request that asks for more than it may.
func requestOf(t *testing.T, curve elliptic.Curve) (request []byte, public *ecdsa.PublicKey, digest string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root", Organization: []string{"system:masters"}}, DNSNames: []string{"hub.example"},
	}, k)
	if err != nil {
		t.Fatal(err)
	}
	if curve != elliptic.P256() {
		return request, nil, ""
	}
	if public, digest, err = KeyOf(request); err != nil {
		t.Fatal(err)
	}
	return request, public, digest
}
