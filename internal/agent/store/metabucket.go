package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
	bolt "go.etcd.io/bbolt"
)

// putMeta writes Meta and its hash. Meta itself is not part of meta.Written.
func (t values) putMeta() error {
	b, err := json.Marshal(t.meta)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	return t.bucket(metaBucket).Put(metaKey, fmt.Appendf(b, "\n%s", t.meta.sum(b)))
}

// readMeta reads Meta and checks its hash. The first agents wrote no hashes: for their stores
// readMeta computes meta.Written, and the next change writes it.
func readMeta(b *bolt.Tx) (*Meta, error) {
	value, _ := storedValue(b.Bucket(metaBucket), string(metaKey))
	text, sum, summed := bytes.Cut(value, []byte("\n"))
	m := &Meta{}
	if !summed && !gjson.GetBytes(text, "written").Exists() {
		if err := json.Unmarshal(text, m); err != nil {
			return nil, fmt.Errorf("decode meta: %w", err)
		}
		return m, sumValues(b, m)
	}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("decode meta: %w", err)
	}
	if string(sum) != m.sum(text).String() {
		return nil, errors.New("meta does not match its hash")
	}
	return m, nil
}

// sumValues computes m.Written from all values.
func sumValues(b *bolt.Tx, m *Meta) error {
	for _, name := range valueBuckets() {
		bucket := b.Bucket(name)
		if bucket == nil {
			return fmt.Errorf("bucket %q is missing", name)
		}
		if err := bucket.ForEach(func(k, v []byte) error {
			m.Written = m.Written.Add(writtenSum(name, string(k), v))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
