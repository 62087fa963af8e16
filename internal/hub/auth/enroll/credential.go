package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// Agents is the group of all agents.
	Agents = "orrery:locations"
	// UserPrefix is how the name of each agent begins; its location follows.
	UserPrefix = "orrery:location:"
)

// Credential is the content of an agent's certificate.
type Credential struct {
	Location key.Location
	// Shard is the number of the agent's shard; 0 or 1 for the first shard and for a whole
	// location.
	Shard int
	// UID is the UID of the location: a location that is created again is another one.
	UID string
	// Number counts the credentials of the location. Joined is the number of the first credential
	// of the same join: credentials of an older join are superseded, not spent.
	Number, Joined uint64
	// Key is the digest of the agent's public key.
	Key string
	// NotAfter is when it expires, by the clock of the hub.
	NotAfter time.Time
	// Signer is the certificate of the authority that signed it.
	Signer *x509.Certificate
}

// Mark identifies the credential in the record of its location.
func (c Credential) Mark() Mark { return Mark{Number: c.Number, Key: c.Key} }

// number returns the number of the agent's shard.
func (c Credential) number() int { return max(1, c.Shard) }

// serial returns the part of the certificate that identifies the credential besides its location.
func (c Credential) serial() string {
	serial := fmt.Sprintf("%s/%d/%d", c.UID, c.Number, c.Joined)
	if c.Shard > 1 {
		serial += fmt.Sprintf("/%d", c.Shard)
	}
	return serial
}

// KeyOf returns the public key of a certificate request, and its digest. Nothing else of the
// request is used.
func KeyOf(request []byte) (public *ecdsa.PublicKey, digest string, err error) {
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, "", fmt.Errorf("parse the certificate request: %w", err)
	}
	public, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, "", errors.New("the key of the certificate request is not of the curve P-256")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, "", fmt.Errorf("check the certificate request: %w", err)
	}
	return public, digestOf(csr.RawSubjectPublicKeyInfo), nil
}

func digestOf(subjectPublicKeyInfo []byte) string {
	sum := sha256.Sum256(subjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Agent issues the certificate of a credential, DER, for the public key that the credential names.
// It is valid for a life from now, and at least until NotAfter.
func (a *Authority) Agent(c Credential, public *ecdsa.PublicKey, life time.Duration) ([]byte, error) {
	until := a.now().Add(life)
	if until.Before(c.NotAfter) {
		until = c.NotAfter
	}
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{
			CommonName: UserPrefix + string(c.Location), Organization: []string{Agents},
			SerialNumber: c.serial(),
		},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public, until)
}

// IsAgent reports whether a certificate claims to be an agent's. Authenticators of users must
// reject such certificates.
func IsAgent(cert *x509.Certificate) bool {
	return slices.Contains(cert.Subject.Organization, Agents)
}

var errForeign = errors.New("the certificate is not one of an agent of this hub")

// Credential reads an agent's certificate, which the authority must have signed. The caller must
// check its expiry. Its begin is not checked: a hub whose clock was set back must accept the
// certificates that it has issued.
func (a *Authority) Credential(cert *x509.Certificate) (Credential, error) {
	c, err := credentialOf(cert)
	if err != nil {
		return c, err
	}
	for _, c.Signer = range a.held.Load().certs {
		if cert.CheckSignatureFrom(c.Signer) == nil {
			return c, nil
		}
	}
	return Credential{}, fmt.Errorf("%w: its authority has not signed it", errForeign)
}

// FormerCredential reads a certificate that a replaced authority has signed, and returns when that
// authority was dropped. Its key may be compromised, so the caller must check the content against
// other data.
func (a *Authority) FormerCredential(cert *x509.Certificate) (c Credential, dropped time.Time, err error) {
	if c, err = credentialOf(cert); err != nil {
		return c, dropped, err
	}
	for _, one := range a.held.Load().former {
		if cert.CheckSignatureFrom(one.cert) == nil {
			c.Signer = one.cert
			return c, one.dropped, nil
		}
	}
	return Credential{}, dropped, fmt.Errorf("%w: its authority has not signed it", errForeign)
}

// credentialOf reads an agent's certificate without a check of the signature.
func credentialOf(cert *x509.Certificate) (Credential, error) {
	l, ok := strings.CutPrefix(cert.Subject.CommonName, UserPrefix)
	if !ok || !slices.Equal(cert.Subject.Organization, []string{Agents}) || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		return Credential{}, errForeign
	}
	c := Credential{Location: key.Location(l), Key: digestOf(cert.RawSubjectPublicKeyInfo), NotAfter: cert.NotAfter}
	fields := strings.Split(cert.Subject.SerialNumber, "/")
	const uid, number, joined, all = 0, 1, 2, 3
	if len(fields) < all || fields[uid] == "" || key.ValidateName(l) != nil {
		return Credential{}, errForeign
	}
	c.UID = fields[uid]
	var errNumber, errJoined error
	if rest := fields[all:]; len(rest) > 0 {
		shard, err := strconv.Atoi(rest[0])
		if err != nil || len(rest) > 1 || shard <= 1 || shard > key.MaxShards {
			return Credential{}, errForeign
		}
		c.Shard = shard
	}
	c.Number, errNumber = strconv.ParseUint(fields[number], 10, 64)
	c.Joined, errJoined = strconv.ParseUint(fields[joined], 10, 64)
	if errors.Join(errNumber, errJoined) != nil || c.Number == 0 || c.Joined == 0 || c.Joined > c.Number {
		return Credential{}, errForeign
	}
	return c, nil
}
