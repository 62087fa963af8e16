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
	// ErrKey says that a store was encrypted with another key than the one given, or that
	// none was given.
	ErrKey = errors.New("the store is encrypted with another key")

	boxBucket = []byte("encryption") // one value: boxRecord, and its sum
	boxKey    = []byte("encryption")
)

const (
	// MinKey is the least size of a key, in bytes.
	MinKey = diskkey.MinSecret
	// boxUse is what the key of a store is derived for.
	boxUse = "orrery-agent store"
)

// boxRecord says in the store by what it is encrypted.
type boxRecord struct {
	Salt []byte `json:"salt"`
	// ID is derived from the key, like the box's own key, and tells keys apart.
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

// put writes what the store is encrypted by.
func (x *box) put(b *bolt.Tx) error {
	if x == nil {
		return nil
	}
	text, err := json.Marshal(x.record)
	if err != nil {
		return fmt.Errorf("encode what the store is encrypted by: %w", err)
	}
	bucket, err := b.CreateBucketIfNotExists(boxBucket)
	if err != nil {
		return err
	}
	return bucket.Put(boxKey, fmt.Appendf(text, "\n%s", wire.SumOf(text)))
}

// readBoxRecord reads what a store is encrypted by; nil if it is not encrypted.
func readBoxRecord(b *bolt.Tx) (*boxRecord, error) {
	if b.Bucket(boxBucket) == nil {
		return nil, nil
	}
	stored, _ := values{tx: b}.stored(boxBucket, string(boxKey))
	text, sum, _ := bytes.Cut(stored, []byte("\n"))
	if string(sum) != wire.SumOf(text).String() {
		return nil, errors.New("what the store is encrypted by does not have its sum")
	}
	r := &boxRecord{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("decode what the store is encrypted by: %w", err)
	}
	return r, nil
}

// open is the box of a record, if the secret is the one that it was made with.
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

// about is what is authenticated with a value: its place, so that none can be put in the
// place of another.
func about(bucket []byte, k string) []byte {
	b := make([]byte, 0, len(bucket)+1+len(k))
	return append(append(append(b, bucket...), '/'), k...)
}

// seal encrypts a value.
func (x *box) seal(bucket []byte, k string, v []byte) []byte {
	if x == nil {
		return v
	}
	return x.key.Seal(v, about(bucket, k))
}

// open decrypts a value. One that can't be decrypted is damaged.
func (x *box) open(bucket []byte, k string, sealed []byte) ([]byte, error) {
	if x == nil {
		return sealed, nil
	}
	v, err := x.key.Open(sealed, about(bucket, k))
	if err != nil {
		return nil, fmt.Errorf("decrypt %s of %q: %w", bucket, k, err)
	}
	return v, nil
}
