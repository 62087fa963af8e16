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
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

const (
	// certFile has the certificates that are trusted; the first of them signs. keyFile has
	// the keys of them, in the order in which they were made.
	certFile, keyFile = "ca.crt", "ca.key"
	// maxAuthorities are the one that signs, and the one before or after it.
	maxAuthorities = 2
)

// held is what the files of an authority have.
type held struct {
	// certs are trusted; the first one signs, with key.
	certs []*x509.Certificate
	key   *ecdsa.PrivateKey
	// keys are all in keyFile, the oldest first.
	keys []*ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
	// former were trusted before, the one that was dropped last first.
	former []former
}

// create writes the files of a new authority. The key is written first, so that a directory with a
// certificate always has its key. An existing key is kept: it remains from a crash, or the
// certificate was lost, and clients that trust that certificate accept the key's signatures.
func create(dir string, now time.Time) error {
	key, err := keyWithout(dir)
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = newKey(); err != nil {
			return err
		}
		keys, err := writeOfKeys(key)
		if err == nil {
			err = keys.to(dir)
		}
		if err != nil {
			return err
		}
	}
	cert, err := certOf(key, now, now.Add(-clockSkew))
	if err != nil {
		return err
	}
	return writeOfCerts(cert).to(dir)
}

// keyWithout returns the key of a directory without a certificate; nil if there is none.
func keyWithout(dir string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(dir, keyFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // the caller creates it
	}
	var keys []*ecdsa.PrivateKey
	if err == nil {
		keys, err = parseKeys(text)
	}
	if err == nil && len(keys) != 1 {
		err = fmt.Errorf("%d keys, want 1", len(keys))
	}
	if err != nil {
		return nil, fmt.Errorf("%s is missing, and cannot be created from %s: %w; restore both files, or remove the remaining one for a new authority that no agent knows", certFile, keyFile, err)
	}
	return keys[0], nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority's key: %w", err)
	}
	return key, nil
}

// certOf returns a self-signed certificate of a key.
func certOf(key *ecdsa.PrivateKey, now, notBefore time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "orrery-ca"},
		NotBefore:             notBefore,
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate authority: %w", err)
	}
	return cert, nil
}

// write is what a file of an authority is to have.
type write struct {
	file string
	text []byte
	mode os.FileMode
}

// to writes the file in a directory. Readers find the text before or after it, and nothing between.
func (w write) to(dir string) error {
	if err := atomicfile.WriteFile(filepath.Join(dir, w.file), w.text, w.mode); err != nil {
		return fmt.Errorf("write %s of the certificate authority: %w", w.file, err)
	}
	return nil
}

func writeOfKeys(keys ...*ecdsa.PrivateKey) (write, error) {
	var all []byte
	for _, key := range keys {
		b, err := keyutil.MarshalPrivateKeyToPEM(key)
		if err != nil {
			return write{}, fmt.Errorf("encode the certificate authority's key: %w", err)
		}
		all = append(all, b...)
	}
	return write{keyFile, all, 0o600}, nil
}

func writeOfCerts(certs ...*x509.Certificate) write { return write{certFile, pemOf(certs), 0o644} }

func pemOf(certs []*x509.Certificate) (text []byte) {
	for _, cert := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return text
}

// newHeld is what an authority has that trusts certificates, of which the first one signs with the key.
func newHeld(certs []*x509.Certificate, key *ecdsa.PrivateKey, all []former) *held {
	h := &held{certs: certs, key: key, former: all, pem: pemOf(certs), pool: x509.NewCertPool()}
	for _, cert := range certs {
		h.pool.AddCert(cert)
	}
	return h
}

// read reads the files of an authority.
func read(dir string) (*held, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, certFile))
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority's key: %w", err)
	}
	h := &held{pem: certPEM, pool: x509.NewCertPool()}
	if h.certs, err = parseCerts(certPEM); err != nil {
		return nil, err
	}
	if h.keys, err = parseKeys(keyPEM); err != nil {
		return nil, err
	}
	for _, cert := range h.certs {
		h.pool.AddCert(cert)
	}
	if h.former, err = readFormer(dir); err != nil {
		return nil, err
	}
	if h.key = h.keyOf(h.certs[0]); h.key == nil {
		return nil, errors.New("the certificate authority that is to sign has no key in ca.key")
	}
	return h, nil
}

// keyOf is the key of a certificate; nil: there is none.
func (h *held) keyOf(cert *x509.Certificate) *ecdsa.PrivateKey {
	for _, key := range h.keys {
		if key.PublicKey.Equal(cert.PublicKey) {
			return key
		}
	}
	return nil
}

func parseCerts(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse the certificate authority: %w", err)
		}
		all = append(all, cert)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("the certificate authority is not PEM")
	case len(all) > maxAuthorities:
		return nil, fmt.Errorf("%d certificate authorities: want at most %d", len(all), maxAuthorities)
	}
	return all, nil
}

func parseKeys(text []byte) (all []*ecdsa.PrivateKey, err error) {
	for text = bytes.TrimSpace(text); len(text) > 0; text = bytes.TrimSpace(text) {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("the certificate authority's key is not PEM")
		}
		parsed, err := keyutil.ParsePrivateKeyPEM(pem.EncodeToMemory(block))
		if err != nil {
			return nil, fmt.Errorf("parse the certificate authority's key: %w", err)
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("the certificate authority's key is a %T, want ECDSA", parsed)
		}
		all, text = append(all, key), rest
	}
	return all, nil
}
