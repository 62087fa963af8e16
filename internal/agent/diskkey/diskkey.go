// Package diskkey derives keys from a secret that the agent was given, and encrypts with them the agent's data
// on disk.
//
// It never keeps a key, and never reads or writes a file.
package diskkey

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	saltSize = 32
	idSize   = 16
	// MinSecret is the least size of a secret, in bytes.
	MinSecret = 16
)

// Key encrypts values. Nonces are random and long enough for any number of them.
type Key struct {
	aead cipher.AEAD
	// Salt is the salt of the derivation. ID distinguishes the keys of one salt.
	Salt, ID []byte
}

// New derives a new key from a secret, for a purpose.
func New(secret []byte, use string) (*Key, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // it never fails
	return Derive(secret, salt, use)
}

// Derive derives the key of a salt from a secret, for a purpose.
func Derive(secret, salt []byte, use string) (*Key, error) {
	sealing, err := hkdf.Key(sha256.New, secret, salt, use, chacha20poly1305.KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, secret, salt, use+" id", idSize)
	if err != nil {
		return nil, fmt.Errorf("derive the id of a key: %w", err)
	}
	aead, err := chacha20poly1305.NewX(sealing)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	return &Key{aead, salt, id}, nil
}

// Seal encrypts a value and authenticates its context with it, which Open needs as well.
func (k *Key) Seal(value, context []byte) []byte {
	n := k.aead.NonceSize()
	out := make([]byte, n, n+len(value)+k.aead.Overhead())
	_, _ = rand.Read(out) // it never fails
	return k.aead.Seal(out, out, value, context)
}

// Open decrypts a value that the key has sealed with the same context.
func (k *Key) Open(sealed, context []byte) ([]byte, error) {
	n := k.aead.NonceSize()
	if len(sealed) < n {
		return nil, fmt.Errorf("%d bytes are too few", len(sealed))
	}
	return k.aead.Open(nil, sealed[:n], sealed[n:], context)
}
