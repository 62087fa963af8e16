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

// Credential is what an agent's certificate says.
type Credential struct {
	Location key.Location
	// Shard is the number of the agent's shard, if it is not the first, or has the whole.
	Shard int
	// UID is that of the location: one that is made again is another.
	UID string
	// Number counts the credentials of the location. Joined is that of the first one of
	// the same join: what an older join led to is not spent but superseded.
	Number, Joined uint64
	// Key is the digest of the agent's public key.
	Key string
	// NotAfter is when it ends, by the clock of the hub.
	NotAfter time.Time
	// Signer is the certificate of the authority that has signed it.
	Signer *x509.Certificate
}

// Mark is the credential's place in the record of its location.
func (c Credential) Mark() Mark { return Mark{Number: c.Number, Key: c.Key} }

// number is that of the agent's shard.
func (c Credential) number() int { return max(1, c.Shard) }

// serial is what a certificate says of a credential besides the location.
func (c Credential) serial() string {
	serial := fmt.Sprintf("%s/%d/%d", c.UID, c.Number, c.Joined)
	if c.Shard > 1 {
		serial += fmt.Sprintf("/%d", c.Shard)
	}
	return serial
}

// KeyOf reads the public key of a certificate request, which is all that is taken from
// it, and the digest by which that is known.
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

// Agent issues the certificate of a credential, DER, for the public key that it names,
// valid from now on for a life, and not for less than until its NotAfter.
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

// IsAgent says whether a certificate claims to be an agent's, which are those of the
// group: whoever accepts those of people has to refuse it.
func IsAgent(cert *x509.Certificate) bool {
	return slices.Contains(cert.Subject.Organization, Agents)
}

var errForeign = errors.New("the certificate is not one of an agent of this hub")

// Credential reads an agent's certificate, which the authority must have signed. When
// it ends is for the caller to judge, and when it begins for nobody: a hub whose clock
// was set back is to believe what it has issued.
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

// FormerCredential reads a certificate that an authority has signed which was replaced,
// and says when that was dropped. Whoever has the key of that authority can have made it,
// so nothing in it is to be believed that is not known from elsewhere.
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

// credentialOf reads an agent's certificate, whoever has signed it.
func credentialOf(cert *x509.Certificate) (Credential, error) {
	l, ok := strings.CutPrefix(cert.Subject.CommonName, UserPrefix)
	if !ok || !slices.Equal(cert.Subject.Organization, []string{Agents}) || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		return Credential{}, errForeign
	}
	c := Credential{Location: key.Location(l), Key: digestOf(cert.RawSubjectPublicKeyInfo), NotAfter: cert.NotAfter}
	parts := strings.Split(cert.Subject.SerialNumber, "/")
	const uid, number, joined, all = 0, 1, 2, 3
	if len(parts) < all || parts[uid] == "" || key.ValidateName(l) != nil {
		return Credential{}, errForeign
	}
	c.UID = parts[uid]
	var errNumber, errJoined error
	if rest := parts[all:]; len(rest) > 0 {
		shard, err := strconv.Atoi(rest[0])
		if err != nil || len(rest) > 1 || shard <= 1 || shard > key.MaxShards {
			return Credential{}, errForeign
		}
		c.Shard = shard
	}
	c.Number, errNumber = strconv.ParseUint(parts[number], 10, 64)
	c.Joined, errJoined = strconv.ParseUint(parts[joined], 10, 64)
	if errors.Join(errNumber, errJoined) != nil || c.Number == 0 || c.Joined == 0 || c.Joined > c.Number {
		return Credential{}, errForeign
	}
	return c, nil
}
