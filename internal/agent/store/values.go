package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/wire"
)

// values are the values of a transaction, by bucket and key, and the meta that describes
// them.
type values struct {
	tx   *bolt.Tx
	meta *Meta
	box  *box
}

func (t values) bucket(name []byte) *bolt.Bucket { return t.tx.Bucket(name) }

// get returns the value of a key, which is valid until the transaction ends, and whether
// there is one. Values must be looked up by get only: for an empty value that was put in
// the same transaction, bbolt's Get returns nil, as if there were none.
//
// A value that can't be decrypted is damaged, which is a panic, as for damage that bbolt
// comes upon.
func (t values) get(in []byte, k string) (v []byte, ok bool) {
	stored, ok := t.stored(in, k)
	if !ok {
		return nil, false
	}
	return t.open(in, k, stored), true
}

// open decrypts what the store has of a key.
func (t values) open(in []byte, k string, stored []byte) []byte {
	v, err := t.box.open(in, k, stored)
	if err != nil {
		panic(err)
	}
	return v
}

// stored is what the store has of a key, encrypted or not, and whether it has something.
func (t values) stored(in []byte, k string) (v []byte, ok bool) {
	found, v := t.bucket(in).Cursor().Seek([]byte(k))
	if found == nil || string(found) != k {
		return nil, false
	}
	return v, true
}

// has says whether a key has a value.
func (t values) has(in []byte, k string) bool {
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

// put sets a value. Values must be changed by put and remove only, which keep meta.Written
// equal to the sum of all values.
func (t values) put(in []byte, k string, v []byte) error {
	t.unwrite(in, k)
	stored := t.box.seal(in, k, v)
	t.meta.Written = t.meta.Written.Add(writtenSum(in, k, stored))
	return t.bucket(in).Put([]byte(k), stored)
}

// remove deletes a value, if there is one.
func (t values) remove(in []byte, k string) error {
	t.unwrite(in, k)
	return t.bucket(in).Delete([]byte(k))
}

func (t values) unwrite(in []byte, k string) {
	if old, ok := t.stored(in, k); ok {
		t.meta.Written = t.meta.Written.Sub(writtenSum(in, k, old))
	}
}

// writtenSum is the part of meta.Written of a value as it is stored.
func writtenSum(bucket []byte, k string, v []byte) wire.Sum {
	b := make([]byte, 0, len(bucket)+len(k)+len(v)+binary.MaxVarintLen64+1)
	b = append(append(b, bucket...), '/')
	b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
	return wire.SumOf(append(b, v...))
}

// getJSON reads a value into v; false if there is none.
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
