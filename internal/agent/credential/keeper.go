// Package credential keeps what an agent shows its hub: a key, the certificate that the
// hub has issued for it, and the key that the next one is asked for.
//
// A new credential is on disk before it is used, and from then on none that is older is
// used again: the hub takes an older one for a thief's. The package must never talk to a
// hub.
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

// Keeper keeps an agent's credential in its data directory. It is safe for concurrent
// use; one process at a time may have a directory open.
type Keeper struct {
	dir string
	// seal encrypts the file; nil: nothing does.
	seal *diskkey.Key

	mu  sync.Mutex
	now kept
	// current is what now has, parsed; nil: nothing was issued yet.
	current *Identity
}

// kept is what is on disk.
type kept struct {
	// Join is the digest of the token by which the agent joined.
	Join string `json:"join,omitempty"`
	// Certificate and Key are DER. Obtained is when it was issued, by the agent's clock,
	// and RenewAfter how long after that the hub wants to be asked for the next.
	Certificate []byte        `json:"certificate,omitempty"`
	Key         []byte        `json:"key,omitempty"`
	Obtained    time.Time     `json:"obtained,omitzero"`
	RenewAfter  time.Duration `json:"renewAfter,omitempty"`
	// Next is the key that the next certificate is asked for, as often as it takes.
	Next []byte `json:"next,omitempty"`
}

// Identity is a credential that was issued.
type Identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// Obtained is when it was, and RenewAfter how long after that it is to be renewed.
	Obtained   time.Time
	RenewAfter time.Duration
}

// Open reads what a data directory has. With a secret that is encrypted, also what was
// there before; Open fails with ErrKey if it was encrypted with another one.
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
	return k, k.save(k.now)
}

func (k *Keeper) read(b, secret []byte) (err error) {
	if b, k.seal, err = unsealFile(b, secret); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.now); err != nil {
		return err
	}
	k.current, err = k.now.identity()
	return err
}

func (k kept) identity() (*Identity, error) {
	if len(k.Certificate) == 0 {
		return nil, nil //nolint:nilnil // nothing was issued yet
	}
	cert, err := x509.ParseCertificate(k.Certificate)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	key, err := x509.ParseECPrivateKey(k.Key)
	if err != nil {
		return nil, fmt.Errorf("parse the key: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &Identity{cert: cert, key: key, Obtained: k.Obtained, RenewAfter: k.RenewAfter}, nil
}

// Current is the credential to use; nil: none was issued yet.
func (k *Keeper) Current() *Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// JoinedBy says whether the credential goes back to a join token.
func (k *Keeper) JoinedBy(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current != nil && k.now.Join == digest(token)
}

// Request is a certificate request for the next credential. It is for the same key until
// one has been issued, so that a request whose answer is lost can be made again.
func (k *Keeper) Request() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.now.Next) == 0 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		next := k.now
		if next.Next, err = x509.MarshalECPrivateKey(key); err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		if err := k.save(next); err != nil {
			return nil, err
		}
	}
	key, err := x509.ParseECPrivateKey(k.now.Next)
	if err != nil {
		return nil, fmt.Errorf("parse the next key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return request, nil
}

// Take makes what the hub has issued the current credential, which is on disk when it
// returns. token is the join token that it was issued for; empty: it is a renewal.
func (k *Keeper) Take(issued wire.Issued, token string, now time.Time) (*Identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.now
	next.Certificate, next.Key, next.Next = issued.Certificate, k.now.Next, nil
	next.Obtained, next.RenewAfter = now, max(issued.RenewAfter(), time.Second)
	if token != "" {
		next.Join = digest(token)
	}
	id, err := next.identity()
	if err == nil && id == nil {
		err = errors.New("there is no certificate")
	}
	if err != nil {
		return nil, fmt.Errorf("take what the hub has issued: %w", err)
	}
	if err := k.save(next); err != nil {
		return nil, err
	}
	k.current = id
	return id, nil
}

func (k *Keeper) save(next kept) error {
	b, err := json.Marshal(next)
	if err == nil {
		b, err = sealFile(k.seal, b)
	}
	if err != nil {
		return fmt.Errorf("encode the agent's credential: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("keep the agent's credential: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(k.dir, file), b, 0o600); err != nil {
		return fmt.Errorf("keep the agent's credential: %w", err)
	}
	k.now = next
	return nil
}

// TLS is the credential for a connection.
func (i *Identity) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.cert.Raw}, PrivateKey: i.key, Leaf: i.cert}
}

// Bearer is the credential as a bearer token.
func (i *Identity) Bearer(l key.Location) (string, error) {
	return wire.NewBearer(string(l), i.cert.Raw, i.key)
}

// Renewal asks for the credential after this one.
func (i *Identity) Renewal(request []byte) (wire.Renewal, error) {
	return wire.NewRenewal(i.cert.Raw, request, i.key)
}

// Fingerprint names the credential among all that the agent ever has.
func (i *Identity) Fingerprint() string { return digest(string(i.cert.Raw)) }

// Ends is when the certificate does, by the hub's clock.
func (i *Identity) Ends() time.Time { return i.cert.NotAfter }

// Due is how long after a time the credential is to be renewed. If the agent's clock says
// that it was obtained in the future, it is not to be trusted, and neither is what it says
// of how long ago that was.
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
