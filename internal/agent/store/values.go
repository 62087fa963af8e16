package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/wire"
)

// values reads and writes the values of all buckets in one transaction. It keeps meta.Written
// equal to the hash of all values.
type values struct {
	tx   *bolt.Tx
	meta *Meta
	box  *box
}

func (t values) bucket(name []byte) *bolt.Bucket { return t.tx.Bucket(name) }

// get returns the value of a key, which is valid until the transaction ends, and whether the key
// exists. It panics if the value cannot be decrypted, since the file is damaged then: bbolt also
// panics on damage.
func (t values) get(in []byte, k string) (v []byte, ok bool) {
	stored, ok := t.stored(in, k)
	if !ok {
		return nil, false
	}
	return t.open(in, k, stored), true
}

// open decrypts the stored bytes of a key.
func (t values) open(in []byte, k string, stored []byte) []byte {
	v, err := t.box.open(in, k, stored)
	if err != nil {
		panic(err)
	}
	return v
}

// stored returns the stored bytes of a key, encrypted or not, and whether the key exists.
func (t values) stored(in []byte, k string) (v []byte, ok bool) {
	return storedValue(t.bucket(in), k)
}

// exists reports whether a key exists.
func (t values) exists(in []byte, k string) bool {
	_, ok := t.stored(in, k)
	return ok
}

func (t values) putJSON(in []byte, k string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", in, err)
	}
	return t.put(in, k, b)
}

// put sets a value. Only put and remove may change values, because they update meta.Written.
func (t values) put(in []byte, k string, v []byte) error {
	t.subtract(in, k)
	stored := t.box.seal(in, k, v)
	t.meta.Written = t.meta.Written.Add(writtenSum(in, k, stored))
	return t.bucket(in).Put([]byte(k), stored)
}

// remove deletes a value, if the key exists.
func (t values) remove(in []byte, k string) error {
	t.subtract(in, k)
	return t.bucket(in).Delete([]byte(k))
}

// subtract takes the stored value of a key out of meta.Written.
func (t values) subtract(in []byte, k string) {
	if old, ok := t.stored(in, k); ok {
		t.meta.Written = t.meta.Written.Sub(writtenSum(in, k, old))
	}
}

// writtenSum returns the hash that a stored value adds to meta.Written.
func writtenSum(bucket []byte, k string, v []byte) wire.Sum {
	b := make([]byte, 0, len(bucket)+len(k)+len(v)+binary.MaxVarintLen64+1)
	b = append(append(b, bucket...), '/')
	b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
	return wire.SumOf(append(b, v...))
}

// getJSON decodes a value into v. It returns false if the key does not exist.
func (t values) getJSON(in []byte, k string, v any) (bool, error) {
	b, ok := t.get(in, k)
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("decode %s of %q: %w", in, k, err)
	}
	return true, nil
}
