package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// inspect reads a whole file. It returns errCorrupt if the file is not consistent.
func inspect(db *bolt.DB, x *box) error {
	return db.View(func(b *bolt.Tx) error {
		info, err := os.Stat(db.Path())
		if err != nil {
			return err
		}
		if info.Size() < b.Size() {
			return fmt.Errorf("%w: the file has %d of %d bytes", errCorrupt, info.Size(), b.Size())
		}
		if b.Bucket(metaBucket) == nil {
			return nil // the store is new
		}
		if err := inspectValues(b, x); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
		// All reachable pages have been read, so this does not access an invalid address.
		var first error
		for err := range b.Check() {
			if first == nil {
				first = fmt.Errorf("%w: %w", errCorrupt, err)
			}
		}
		return first
	})
}

// contents are the figures of Meta, computed from the values.
type contents struct {
	root, written           wire.Sum
	count, deferred, unsent int
}

// inspectValues decodes all values and compares Meta with them.
func inspectValues(b *bolt.Tx, x *box) error {
	m, err := readMeta(b)
	if err != nil {
		return err
	}
	var c contents
	for name, check := range map[string]func(k, v []byte) error{
		string(desiredBucket): c.addDesired,
		string(recordBucket):  inspectRecord,
		string(reportBucket):  inspectReport,
		string(unsentBucket):  func(_, _ []byte) error { c.unsent++; return nil },
		string(guardBucket):   func(_, _ []byte) error { return nil },
		string(statusBucket):  func(_, _ []byte) error { return nil },
	} {
		bucket := b.Bucket([]byte(name))
		if bucket == nil {
			return fmt.Errorf("bucket %q is missing", name)
		}
		if err := bucket.ForEach(func(k, v []byte) error {
			plain, err := x.open([]byte(name), string(k), v)
			if err != nil {
				return err
			}
			if err := check(k, plain); err != nil {
				return fmt.Errorf("%s of %q: %w", name, k, err)
			}
			c.written = c.written.Add(writtenSum([]byte(name), string(k), v))
			return nil
		}); err != nil {
			return err
		}
	}
	return c.compare(m)
}

// compare returns an error if Meta has other figures.
func (c *contents) compare(m *Meta) error {
	if m.Root != c.root || m.Count != c.count || m.Deferred != c.deferred || m.Unsent != c.unsent {
		return fmt.Errorf("meta has %d desired entries with the hash %s, the store has %d with %s", m.Count, m.Root, c.count, c.root)
	}
	if m.Written != c.written {
		return fmt.Errorf("meta has the hash %s of all values, the store has %s", m.Written, c.written)
	}
	return nil
}

// addDesired checks a desired entry and counts it.
func (c *contents) addDesired(k, v []byte) error {
	w, err := inspectWant(string(k), v)
	c.root, c.count = c.root.Add(w.Sum(string(k))), c.count+1
	if w.Deferred {
		c.deferred++
	}
	return err
}

// inspectWant decodes a desired entry and checks the digest of its object.
func inspectWant(k string, v []byte) (Want, error) {
	w, object, err := decodeWant(v)
	if err != nil {
		return w, err
	}
	if _, err := key.ParsePath(k); err != nil {
		return w, err
	}
	if o := w.Object(); o != nil && wire.SumOf(object) != o.Digest {
		return w, errors.New("the object does not match its digest")
	}
	return w, nil
}

func inspectRecord(k, v []byte) error {
	if _, err := key.ParseIdentity(string(k)); err != nil {
		return err
	}
	return json.Unmarshal(v, &Record{})
}

func inspectReport(k, v []byte) error {
	if _, err := key.ParseLine("", string(k)); err != nil {
		return err
	}
	return json.Unmarshal(v, &wire.Report{})
}
