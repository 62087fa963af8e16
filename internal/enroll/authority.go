// Package enroll issues the credentials that a hub trusts: it keeps the hub's
// certificate authority in the data directory, issues certificates from it, and
// makes and checks the join tokens of locations, of which only a hash is stored.
//
// It must never write a secret anywhere but where its caller asked for it.
package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"orrery.dev/orrery/internal/durable"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// clockSkew lets the authority be used by peers whose clocks are behind.
	clockSkew = 5 * time.Minute
	// clockAhead is how far ahead a hub's clock may be when it issues a certificate.
	// With certificateLife it is less than the 825 days that some verifiers allow.
	clockAhead = 400 * 24 * time.Hour
)

// Authority is a certificate authority. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	now  func() time.Time
}

// Pair is a certificate and its key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// LoadOrCreate reads the authority of a directory (ca.crt, ca.key), or creates it.
// now is the clock by which certificates are issued.
func LoadOrCreate(dir string, now func() time.Time) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certPEM, err := os.ReadFile(certFile)
	if errors.Is(err, os.ErrNotExist) {
		return create(certFile, keyFile, now)
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority's key: %w", err)
	}
	return parse(certPEM, keyPEM, now)
}

func create(certFile, keyFile string, now func() time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now().UnixNano()),
		Subject:               pkix.Name{CommonName: "orrery-ca"},
		NotBefore:             now().Add(-clockSkew),
		NotAfter:              now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate authority: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate authority's key: %w", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	// The key goes first, so that a directory with a certificate always has its key.
	if err := durable.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return nil, fmt.Errorf("write the certificate authority's key: %w", err)
	}
	if err := durable.WriteFile(certFile, certPEM, 0o644); err != nil {
		return nil, fmt.Errorf("write the certificate authority: %w", err)
	}
	return parse(certPEM, keyPEM, now)
}

func parse(certPEM, keyPEM []byte, now func() time.Time) (*Authority, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, errors.New("the certificate authority is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate authority: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate authority's key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the certificate authority's key is a %T, want ECDSA", parsed)
	}
	return &Authority{cert: cert, key: key, pem: certPEM, now: now}, nil
}

// PEM is the authority's certificate, which clients trust.
func (a *Authority) PEM() []byte { return a.pem }

// Pool is the authority's certificate as a pool to verify against.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server issues a certificate for a server reached under the given host names
// and addresses.
func (a *Authority) Server(hosts []string) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "orrery-hub"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return a.issue(template)
}

// Client issues a certificate for a user in groups. As in Kubernetes, the common
// name is the user, and the organizations are the groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := a.sign(template, key.Public(), certificateLife)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: keyPEM}, nil
}

// sign signs a certificate, backdated so that those of a hub whose clock is ahead are valid
// for peers whose clocks are right; but not to before the authority's own.
func (a *Authority) sign(template *x509.Certificate, public any, life time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = a.now().Add(-clockAhead), a.now().Add(life)
	if template.NotBefore.Before(a.cert.NotBefore) {
		template.NotBefore = a.cert.NotBefore
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %q: %w", template.Subject.CommonName, err)
	}
	return der, nil
}
