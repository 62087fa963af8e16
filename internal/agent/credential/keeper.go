// Package credential stores the credential with which an agent authenticates to its hub: a
// key, the certificate that the hub has issued for it, and the key for the next certificate.
//
// A new credential is on disk before it is used, and from then on no older one is used: the
// hub treats the use of an older credential as theft. The package must never send requests
// to a hub.
package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"orrery.dev/orrery/internal/agent/diskkey"
	"orrery.dev/orrery/internal/lib/atomicfile"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const file = "credential.json"

// Keeper stores an agent's credential in its data directory. It is safe for concurrent
// use; only one process at a time may open a directory.
type Keeper struct {
	dir string
	// seal encrypts the file; nil if the file is not encrypted.
	seal *diskkey.Key

	mu     sync.Mutex
	stored stored
	// current is the parsed credential of stored; nil before the first certificate.
	current *Identity
}

// stored is the content of the file.
type stored struct {
	// Join is the digest of the token by which the agent joined.
	Join string `json:"join,omitempty"`
	// Certificate and Key are DER. Obtained is the time of issue by the agent's clock, and
	// RenewAfter the time from then until the agent requests the next certificate.
	Certificate []byte        `json:"certificate,omitempty"`
	Key         []byte        `json:"key,omitempty"`
	Obtained    time.Time     `json:"obtained,omitzero"`
	RenewAfter  time.Duration `json:"renewAfter,omitempty"`
	// Next is the key of the next certificate. Repeated requests use the same key.
	Next []byte `json:"next,omitempty"`
}

// Identity is a credential that the hub has issued.
type Identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// Obtained is the time of issue by the agent's clock, and RenewAfter the time from then
	// until the renewal.
	Obtained   time.Time
	RenewAfter time.Duration
}

// Open reads the credential in a data directory. If secret is not empty, the file is
// encrypted from then on, even if it was stored in plain text before. Open fails with ErrKey
// if the file is encrypted with another secret.
func Open(dir string, secret []byte) (*Keeper, error) {
	k := &Keeper{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, file))
	found := !errors.Is(err, fs.ErrNotExist)
	if found {
		if err == nil {
			err = k.read(b, secret)
		}
		if err != nil {
			return nil, fmt.Errorf("read the agent's credential in %q: %w", dir, err)
		}
	}
	if k.seal != nil || len(secret) == 0 {
		return k, nil
	}
	if k.seal, err = diskkey.New(secret, sealUse); err != nil {
		return nil, fmt.Errorf("the key of the agent's credential: %w", err)
	}
	if !found {
		return k, nil
	}
	return k, k.save(k.stored)
}

func (k *Keeper) read(b, secret []byte) (err error) {
	if b, k.seal, err = unsealFile(b, secret); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.stored); err != nil {
		return err
	}
	k.current, err = k.stored.identity()
	return err
}

func (s stored) identity() (*Identity, error) {
	if len(s.Certificate) == 0 {
		return nil, nil //nolint:nilnil // the hub has issued no certificate yet
	}
	cert, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	key, err := x509.ParseECPrivateKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("parse the key: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the private key does not match the certificate")
	}
	return &Identity{cert: cert, key: key, Obtained: s.Obtained, RenewAfter: s.RenewAfter}, nil
}

// Current returns the credential to use; nil if the hub has issued none yet.
func (k *Keeper) Current() *Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// JoinedBy reports whether the agent obtained its first credential with this join token.
func (k *Keeper) JoinedBy(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current != nil && k.stored.Join == digest(token)
}

// Request returns a certificate request for the next credential. All requests use the same
// key until a certificate has been issued, so that a request whose response was lost can be
// repeated.
func (k *Keeper) Request() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.stored.Next) == 0 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate a key: %w", err)
		}
		next := k.stored
		if next.Next, err = x509.MarshalECPrivateKey(key); err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		if err := k.save(next); err != nil {
			return nil, err
		}
	}
	key, err := x509.ParseECPrivateKey(k.stored.Next)
	if err != nil {
		return nil, fmt.Errorf("parse the next key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate request: %w", err)
	}
	return request, nil
}

// Take makes an issued certificate the current credential, which is on disk when Take
// returns. token is the join token of an enrolment; it is empty for a renewal.
func (k *Keeper) Take(issued wire.Issued, token string, now time.Time) (*Identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.stored
	next.Certificate, next.Key, next.Next = issued.Certificate, k.stored.Next, nil
	next.Obtained, next.RenewAfter = now, max(issued.RenewAfter(), time.Second)
	if token != "" {
		next.Join = digest(token)
	}
	id, err := next.identity()
	if err == nil && id == nil {
		err = errors.New("the response has no certificate")
	}
	if err != nil {
		return nil, fmt.Errorf("accept the certificate that the hub issued: %w", err)
	}
	if err := k.save(next); err != nil {
		return nil, err
	}
	k.current = id
	return id, nil
}

func (k *Keeper) save(next stored) error {
	b, err := json.Marshal(next)
	if err == nil {
		b, err = sealFile(k.seal, b)
	}
	if err != nil {
		return fmt.Errorf("encode the agent's credential: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("store the agent's credential: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(k.dir, file), b, 0o600); err != nil {
		return fmt.Errorf("store the agent's credential: %w", err)
	}
	k.stored = next
	return nil
}

// TLS returns the client certificate for a connection.
func (i *Identity) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.cert.Raw}, PrivateKey: i.key, Leaf: i.cert}
}

// Bearer returns the credential as a bearer token.
func (i *Identity) Bearer(l key.Location) (string, error) {
	return wire.NewBearer(string(l), i.cert.Raw, i.key)
}

// Renewal returns the renewal message with a certificate request, signed with this credential.
func (i *Identity) Renewal(request []byte) (wire.Renewal, error) {
	return wire.NewRenewal(i.cert.Raw, request, i.key)
}

// Fingerprint returns the digest of the certificate, which identifies the credential.
func (i *Identity) Fingerprint() string { return digest(string(i.cert.Raw)) }

// Ends returns the time at which the certificate expires, by the hub's clock.
func (i *Identity) Ends() time.Time { return i.cert.NotAfter }

// Due returns the time from now until the renewal; 0 if it is due. It is also due if the
// credential was obtained in the future: the agent's clock was set back, so the age of the
// credential is unknown.
func (i *Identity) Due(now time.Time) time.Duration {
	age := now.Sub(i.Obtained)
	if age < 0 {
		return 0
	}
	return max(0, i.RenewAfter-age)
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
