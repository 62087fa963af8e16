package enroll

import (
	"bytes"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRotation: in all steps of a rotation, clients with the announced authorities trust the
// certificates of the signing one, and a running hub follows.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	a, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	old, before := a.Pool(), issued(t, a)
	step := func(s Step, want Rotation) {
		t.Helper()
		got, err := Rotate(dir, s, time.Now())
		if err != nil || got != want {
			t.Fatalf("%s: %q, %v; want %q", s, got, err, want)
		}
		if changed, err := a.Reload(); !changed || err != nil {
			t.Fatalf("after %s: changed %v, %v", s, changed, err)
		}
		if changed, err := a.Reload(); changed || err != nil {
			t.Fatalf("nothing has happened since %s: changed %v, %v", s, changed, err)
		}
	}
	refused := func(all ...Step) {
		t.Helper()
		for _, s := range all {
			if is, err := Rotate(dir, s, time.Now()); err == nil {
				t.Fatalf("%s was done, it is %s", s, is)
			}
		}
	}
	trusted := func(c *x509.Certificate, pool *x509.CertPool, want bool) {
		t.Helper()
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: "hub"}); (err == nil) != want {
			t.Fatalf("trusted: %v, want %v", err, want)
		}
	}

	refused(Switch, Finish, Undo)
	step(Announce, Announced)
	refused(Announce, Finish)
	trusted(issued(t, a), old, true)
	step(Undo, Stable)
	step(Announce, Announced)
	both := a.Pool()
	step(Switch, Switched)
	refused(Announce, Switch)
	next := issued(t, a)
	trusted(next, old, false)
	trusted(next, both, true)
	trusted(before, a.Pool(), true)
	step(Undo, Announced)
	trusted(issued(t, a), old, true)
	step(Switch, Switched)
	step(Finish, Stable)
	trusted(before, a.Pool(), false)
	trusted(issued(t, a), both, true)
	if b, err := LoadOrCreate(dir, time.Now); err != nil || !b.Signer().Equal(a.Signer()) {
		t.Fatalf("a restart has another authority: %v", err)
	}
	if left, err := os.ReadFile(filepath.Join(dir, formerFile)); err != nil || bytes.Contains(left, []byte("PRIVATE")) {
		t.Fatalf("what is kept of former authorities: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key's file: %v, %v", info, err)
	}
}

// TestFormerAuthorities: the last few that were dropped are known, also after a crash
// between the steps, and what one of them has signed is not taken for what is trusted.
func TestFormerAuthorities(t *testing.T) {
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	a, err := LoadOrCreate(dir, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	_, public, digest := requestOf(t, elliptic.P256())
	var certs []*x509.Certificate
	for i := range maxFormer + 2 {
		der, err := a.Agent(Credential{Location: "edge1", UID: "u", Number: 1, Joined: 1, Key: digest}, public, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, cert)
		for _, step := range []Step{Announce, Switch} {
			if _, err := Rotate(dir, step, now); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 { // a crash before the certificates are written
			h, err := read(dir)
			if err == nil {
				err = h.writeOfFormer(h.certs[1], now).to(dir)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Hour)
		if _, err := Rotate(dir, Finish, now); err != nil {
			t.Fatal(err)
		}
		for changed := true; changed; { // one step at a time
			if changed, err = a.Reload(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, cert := range certs {
		if _, err := a.Credential(cert); err == nil {
			t.Errorf("what authority %d has signed is trusted", i)
		}
		c, dropped, err := a.FormerCredential(cert)
		if i < 2 {
			if err == nil {
				t.Errorf("authority %d is still known", i)
			}
			continue
		}
		if want := now.Add(-time.Duration(len(certs)-1-i) * time.Hour); err != nil || !dropped.Equal(want) || c.Location != "edge1" || a.Trusts(c.Signer) {
			t.Errorf("authority %d was dropped at %s, want %s: %+v, %v", i, dropped, want, c, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, formerFile), []byte("-----BEGIN CERTIFICATE-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(dir, time.Now); err == nil {
		t.Error("garbage is read")
	}
}

// TestReloadOfDamage: an authority goes on as it was while its files are not right.
func TestReloadOfDamage(t *testing.T) {
	dir := t.TempDir()
	a, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := LoadOrCreate(other, time.Now); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(filepath.Join(other, certFile))
	if err != nil {
		t.Fatal(err)
	}
	old := a.Signer()
	for _, text := range [][]byte{nil, []byte("garbage"), foreign, append(append(foreign, foreign...), foreign...)} {
		if err := os.WriteFile(filepath.Join(dir, certFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := a.Reload(); changed || err == nil || a.Signer() != old {
			t.Errorf("%.20q: changed %v, %v", text, changed, err)
		}
	}
}

func issued(t *testing.T, a *Authority) *x509.Certificate {
	t.Helper()
	pair, err := a.Server([]string{"hub"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf
}
