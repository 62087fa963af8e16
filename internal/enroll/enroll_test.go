package enroll

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
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
	for _, at := range []time.Time{today, now} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "hub.example", CurrentTime: at}); err != nil {
			t.Errorf("at %s: %v", at, err)
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

func TestTokens(t *testing.T) {
	token, enrolment, err := NewToken("edge1", "u1", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	other, otherEnrolment, err := NewToken("edge1", "u1", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if l, ok := TokenLocation(token); !ok || l != "edge1" {
		t.Fatalf("token is of %q, %v", l, ok)
	}
	_, secret, _ := strings.Cut(token, ".")
	if bytes.Contains(enrolment, []byte(secret)) {
		t.Fatal("the enrolment holds the secret")
	}
	for _, c := range []struct {
		token, uid string
		enrolment  []byte
		want       bool
	}{
		{token, "u1", enrolment, true},
		{token, "u2", enrolment, false},
		{other, "u1", enrolment, false},
		{token, "u1", otherEnrolment, false},
		{token, "u1", []byte(`{"hash":""}`), false},
		{token, "u1", []byte(`garbage`), false},
		{"edge1.", "u1", enrolment, false},
		{"edge1", "u1", enrolment, false},
		{"", "u1", enrolment, false},
	} {
		if got := Verify(c.token, c.uid, c.enrolment); got != c.want {
			t.Errorf("Verify(%q, %q, %s) = %v, want %v", c.token, c.uid, c.enrolment, got, c.want)
		}
	}
}
