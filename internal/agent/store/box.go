package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/agent/diskkey"
	"orrery.dev/orrery/internal/protocol/wire"
)

var (
	// ErrKey is returned if the store was encrypted with another key than the given one, or if no key was
	// given.
	ErrKey = errors.New("the store is encrypted with another key")

	boxBucket = []byte("encryption") // one value: boxRecord, and its hash
	boxKey    = []byte("encryption")
)

const (
	// MinKey is the minimum size of a key, in bytes.
	MinKey = diskkey.MinSecret
	// boxUse is the purpose for which the key of a store is derived.
	boxUse = "orrery-agent store"
)

// boxRecord identifies, in the store, the key of its encryption.
type boxRecord struct {
	Salt []byte `json:"salt"`
	// ID is derived from the secret, like the key itself, and distinguishes keys.
	ID []byte `json:"id"`
}

// box encrypts the values of a store. A nil box leaves them as they are.
type box struct {
	key    *diskkey.Key
	record boxRecord
}

func boxOf(key *diskkey.Key) *box { return &box{key, boxRecord{Salt: key.Salt, ID: key.ID}} }

// createBox derives a new key of a store from a secret.
func createBox(secret []byte) (*box, error) {
	key, err := diskkey.New(secret, boxUse)
	if err != nil {
		return nil, fmt.Errorf("the key of the store: %w", err)
	}
	return boxOf(key), nil
}

// put writes the boxRecord.
func (x *box) put(b *bolt.Tx) error {
	if x == nil {
		return nil
	}
	text, err := json.Marshal(x.record)
	if err != nil {
		return fmt.Errorf("encode the record of the encryption: %w", err)
	}
	bucket, err := b.CreateBucketIfNotExists(boxBucket)
	if err != nil {
		return err
	}
	return bucket.Put(boxKey, fmt.Appendf(text, "\n%s", wire.SumOf(text)))
}

// readBoxRecord reads the boxRecord of a store; nil if the store is not encrypted.
func readBoxRecord(b *bolt.Tx) (*boxRecord, error) {
	bucket := b.Bucket(boxBucket)
	if bucket == nil {
		return nil, nil
	}
	stored, _ := storedValue(bucket, string(boxKey))
	text, sum, _ := bytes.Cut(stored, []byte("\n"))
	if string(sum) != wire.SumOf(text).String() {
		return nil, errors.New("the record of the encryption does not match its hash")
	}
	r := &boxRecord{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("decode the record of the encryption: %w", err)
	}
	return r, nil
}

// open returns the box of a record. It fails with ErrKey if the record is of another secret.
func (r *boxRecord) open(secret []byte) (*box, error) {
	if len(secret) == 0 {
		return nil, fmt.Errorf("%w: none was given", ErrKey)
	}
	key, err := diskkey.Derive(secret, r.Salt, boxUse)
	if err != nil {
		return nil, fmt.Errorf("the key of the store: %w", err)
	}
	if !bytes.Equal(key.ID, r.ID) {
		return nil, ErrKey
	}
	return boxOf(key), nil
}

// additionalData returns the data that is authenticated with a value: its bucket and key, so that no value
// can be moved to another key.
func additionalData(bucket []byte, k string) []byte {
	b := make([]byte, 0, len(bucket)+1+len(k))
	return append(append(append(b, bucket...), '/'), k...)
}

// seal encrypts a value.
func (x *box) seal(bucket []byte, k string, v []byte) []byte {
	if x == nil {
		return v
	}
	return x.key.Seal(v, additionalData(bucket, k))
}

// open decrypts a value. It fails if the value is damaged.
func (x *box) open(bucket []byte, k string, sealed []byte) ([]byte, error) {
	if x == nil {
		return sealed, nil
	}
	v, err := x.key.Open(sealed, additionalData(bucket, k))
	if err != nil {
		return nil, fmt.Errorf("decrypt %s of %q: %w", bucket, k, err)
	}
	return v, nil
}
