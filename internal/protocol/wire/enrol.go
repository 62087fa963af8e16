package wire

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Enrol is a request for a credential. The Authorization header contains a join token.
type Enrol struct {
	// Request is a PKCS #10 certificate request, DER-encoded. Only its public key is used, which
	// must be on the curve P-256.
	Request []byte `json:"request"`
}

// Renewal is a request for the next credential. It needs no Authorization: the proof shows that the
// sender has the key of the present credential.
type Renewal struct {
	// Certificate is the present certificate, DER-encoded.
	Certificate []byte `json:"certificate"`
	// Request is a certificate request as in Enrol.
	Request []byte `json:"request"`
	// Proof is a signature of the request by the key of the certificate.
	Proof []byte `json:"proof"`
}

// Issued is a new credential.
type Issued struct {
	// Certificate is DER-encoded.
	Certificate []byte `json:"certificate"`
	// RenewAfterMilliseconds is the time after which the agent should renew the credential.
	RenewAfterMilliseconds int64 `json:"renewAfterMilliseconds"`
}

// RenewAfter returns the time after which the agent should renew the credential.
func (i Issued) RenewAfter() time.Duration {
	return time.Duration(i.RenewAfterMilliseconds) * time.Millisecond
}

// RenewHeader is set in responses to an agent that must renew its credential now, regardless of its
// own clock.
const RenewHeader = "Orrery-Renew"

// MaxEnrol is the maximum size in bytes of a request for a credential.
const MaxEnrol = 16 << 10

// Refusal is the reason why a hub rejects an agent, as a cause in the Status of the response. A
// response without one may come from another server.
type Refusal string

// Refusals. A rejected join token will not be accepted later. The same holds for a credential,
// except for one that has expired, which can be renewed for a limited time.
const (
	RefusedNone       Refusal = "NoCredential" // the request has no credential, or it was lost on the way
	RefusedJoin       Refusal = "JoinUnknown"  // not from this hub, or no longer valid
	RefusedJoinUsed   Refusal = "JoinUsed"
	RefusedJoinLate   Refusal = "JoinExpired"
	RefusedForeign    Refusal = "CredentialUnknown" // not from this hub, or of a removed location
	RefusedExpired    Refusal = "CredentialExpired"
	RefusedTooLate    Refusal = "CredentialTooOld" // expired for longer than the limit for renewal
	RefusedSuperseded Refusal = "CredentialSuperseded"
	RefusedSpent      Refusal = "CredentialSpent"
	RefusedRevoked    Refusal = "CredentialRevoked"
)

const (
	// bearerPrefix distinguishes the bearer tokens of agents from all others.
	bearerPrefix = "orr_b_"
	// Signed data starts with its purpose.
	bearerSigned  = "orrery agent bearer\n"
	renewalSigned = "orrery agent renewal\n"
)

// NewRenewal returns a renewal of a certificate, signed with its key.
func NewRenewal(certificate, request []byte, key *ecdsa.PrivateKey) (Renewal, error) {
	proof, err := sign(key, renewalSigned, request)
	return Renewal{Certificate: certificate, Request: request, Proof: proof}, err
}

// Verify returns the certificate if the holder of its key signed the renewal.
func (r Renewal) Verify() (*x509.Certificate, error) {
	return signedBy(r.Certificate, r.Proof, renewalSigned, r.Request)
}

// NewBearer returns a bearer token that proves possession of a certificate. It is for connections
// on which a proxy hides the client certificate from the hub. It has the rights of the certificate,
// but can't be used for a renewal.
func NewBearer(location string, certificate []byte, key *ecdsa.PrivateKey) (string, error) {
	proof, err := sign(key, bearerSigned, certificate)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return bearerPrefix + location + "." + encode(certificate) + "." + encode(proof), nil
}

// IsBearer reports whether a token has the form of NewBearer.
func IsBearer(token string) bool { return strings.HasPrefix(token, bearerPrefix) }

var errNoBearer = errors.New("not an agent's bearer token")

// ParseBearer returns the certificate of a bearer token that its holder created. It does not verify
// the issuer of the certificate.
func ParseBearer(token string) (*x509.Certificate, error) {
	fields := strings.Split(strings.TrimPrefix(token, bearerPrefix), ".")
	const certificate, proof, all = 1, 2, 3
	if !IsBearer(token) || len(fields) != all {
		return nil, errNoBearer
	}
	cert, errCert := base64.RawURLEncoding.DecodeString(fields[certificate])
	signature, errProof := base64.RawURLEncoding.DecodeString(fields[proof])
	if errors.Join(errCert, errProof) != nil {
		return nil, errNoBearer
	}
	return signedBy(cert, signature, bearerSigned, cert)
}

func sign(key *ecdsa.PrivateKey, what string, data []byte) ([]byte, error) {
	sum := sha256.Sum256(append([]byte(what), data...))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signature, nil
}

// signedBy returns the certificate if its key signed the data.
func signedBy(certificate, signature []byte, what string, data []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	sum := sha256.Sum256(append([]byte(what), data...))
	if !ok || !ecdsa.VerifyASN1(public, sum[:], signature) {
		return nil, errors.New("the holder of the certificate has not signed this")
	}
	return cert, nil
}
