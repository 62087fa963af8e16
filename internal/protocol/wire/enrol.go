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

// Enrol asks for a credential. The request's Authorization is a join token.
type Enrol struct {
	// Request is a PKCS #10 certificate request, DER. Only its public key matters, which
	// is of the curve P-256.
	Request []byte `json:"request"`
}

// Renewal asks for the credential that follows one. It needs no Authorization: the proof
// shows that who asks has the key of the one before.
type Renewal struct {
	// Certificate is the one before, DER.
	Certificate []byte `json:"certificate"`
	// Request is as in Enrol.
	Request []byte `json:"request"`
	// Proof is a signature of the request by the key of the certificate.
	Proof []byte `json:"proof"`
}

// Issued is a credential.
type Issued struct {
	// Certificate is DER.
	Certificate []byte `json:"certificate"`
	// RenewAfterMilliseconds is when the hub wants to be asked for the next one.
	RenewAfterMilliseconds int64 `json:"renewAfterMilliseconds"`
}

// RenewAfter is when the hub wants to be asked for the next one.
func (i Issued) RenewAfter() time.Duration {
	return time.Duration(i.RenewAfterMilliseconds) * time.Millisecond
}

// RenewHeader is in answers to an agent that is to renew its credential now, whatever its
// own clock says.
const RenewHeader = "Orrery-Renew"

// MaxEnrol bounds the body of a request for a credential.
const MaxEnrol = 16 << 10

// Refusal is why a hub does not know an agent, as a cause of the Status that it answers
// with; without one somebody else may have answered.
type Refusal string

// Refusals. A join token that is refused will not be taken later; nor will a credential,
// but for one that has expired, which can be renewed for a while.
const (
	RefusedNone       Refusal = "NoCredential" // nothing was shown, or it did not arrive
	RefusedJoin       Refusal = "JoinUnknown"  // not of this hub, or not any more
	RefusedJoinUsed   Refusal = "JoinUsed"
	RefusedJoinLate   Refusal = "JoinExpired"
	RefusedForeign    Refusal = "CredentialUnknown" // not of this hub, or of a location that is gone
	RefusedExpired    Refusal = "CredentialExpired"
	RefusedTooLate    Refusal = "CredentialTooOld" // expired for longer than can be renewed
	RefusedSuperseded Refusal = "CredentialSuperseded"
	RefusedSpent      Refusal = "CredentialSpent"
	RefusedRevoked    Refusal = "CredentialRevoked"
)

const (
	// bearerPrefix tells bearers of agents from all others.
	bearerPrefix = "orr_b_"
	// What a key signs begins with what it is for.
	bearerSigned  = "orrery agent bearer\n"
	renewalSigned = "orrery agent renewal\n"
)

// NewRenewal is a renewal of a certificate by who has its key.
func NewRenewal(certificate, request []byte, key *ecdsa.PrivateKey) (Renewal, error) {
	proof, err := sign(key, renewalSigned, request)
	return Renewal{Certificate: certificate, Request: request, Proof: proof}, err
}

// Verify returns the certificate if its holder has made the renewal.
func (r Renewal) Verify() (*x509.Certificate, error) {
	return signedBy(r.Certificate, r.Proof, renewalSigned, r.Request)
}

// NewBearer is a certificate as a bearer token, for when what is between agent and hub
// keeps the hub from seeing the certificate itself. It is as good as the certificate for
// whoever has it, but nothing is renewed by it.
func NewBearer(location string, certificate []byte, key *ecdsa.PrivateKey) (string, error) {
	proof, err := sign(key, bearerSigned, certificate)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return bearerPrefix + location + "." + encode(certificate) + "." + encode(proof), nil
}

// IsBearer says whether a token claims to be of NewBearer.
func IsBearer(token string) bool { return strings.HasPrefix(token, bearerPrefix) }

var errNoBearer = errors.New("not an agent's bearer token")

// ParseBearer returns the certificate of a bearer token that its holder has made. It says
// nothing of who has signed the certificate.
func ParseBearer(token string) (*x509.Certificate, error) {
	parts := strings.Split(strings.TrimPrefix(token, bearerPrefix), ".")
	const certificate, proof, all = 1, 2, 3
	if !IsBearer(token) || len(parts) != all {
		return nil, errNoBearer
	}
	cert, errCert := base64.RawURLEncoding.DecodeString(parts[certificate])
	signature, errProof := base64.RawURLEncoding.DecodeString(parts[proof])
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

// signedBy returns the certificate whose key has signed something.
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
