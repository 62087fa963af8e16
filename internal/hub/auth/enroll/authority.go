// Package enroll issues the credentials that a hub trusts: it keeps the hub's
// certificate authority in the data directory, issues certificates from it, makes
// the join tokens of locations, of which only a hash is stored, and judges the
// credentials that agents have traded them for.
//
// It must never write a secret anywhere but where its caller asked for it.
package enroll

import (
	"bytes"
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
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/keyutil"
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

// Authority is a certificate authority. While it is replaced by another, both are
// trusted and one of them signs, see Rotation. It is safe for concurrent use.
type Authority struct {
	dir string
	now func() time.Time
	// held is what the files had when they were last read.
	held atomic.Pointer[held]
}

// Pair is a certificate and its key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// LoadOrCreate reads the authority of a directory (ca.crt, ca.key), or creates it.
// now is the clock by which certificates are issued.
func LoadOrCreate(dir string, now func() time.Time) (*Authority, error) {
	_, err := os.Stat(filepath.Join(dir, certFile))
	if errors.Is(err, os.ErrNotExist) {
		err = create(dir, now())
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	a := &Authority{dir: dir, now: now}
	_, err = a.Reload()
	return a, err
}

// Reload reads the files again, which a rotation changes, and takes over what has changed. It reports whether
// anything has. If the files are several steps of a rotation ahead, each call takes over one of them. After an
// error the authority is what it was.
func (a *Authority) Reload() (changed bool, err error) {
	next, err := read(a.dir)
	if err != nil {
		return false, err
	}
	last := a.held.Load()
	if last != nil && bytes.Equal(last.pem, next.pem) {
		return false, nil
	}
	if last != nil {
		next = last.toward(next)
	}
	a.held.Store(next)
	return true, nil
}

// Signer returns the certificate whose key signs.
func (a *Authority) Signer() *x509.Certificate { return a.held.Load().certs[0] }

// Trusts reports whether signatures by a certificate of an authority are valid.
func (a *Authority) Trusts(signer *x509.Certificate) bool {
	return slices.ContainsFunc(a.held.Load().certs, signer.Equal)
}

// PEM returns the certificates that clients trust.
func (a *Authority) PEM() []byte { return a.held.Load().pem }

// Pool returns these certificates as a pool.
func (a *Authority) Pool() *x509.CertPool { return a.held.Load().pool }

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
	der, err := a.sign(template, key.Public(), a.now().Add(certificateLife))
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
func (a *Authority) sign(template *x509.Certificate, public any, until time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = a.now().Add(-clockAhead), until
	signer := a.held.Load()
	if first := signer.certs[0].NotBefore; template.NotBefore.Before(first) {
		template.NotBefore = first
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certs[0], public, signer.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %q: %w", template.Subject.CommonName, err)
	}
	return der, nil
}
