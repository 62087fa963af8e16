package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

// encryptStep is the number of values that are copied in one transaction.
const encryptStep = 1000

// unlock derives the key of the store. It fails with ErrKey if the store was encrypted with another secret.
// plain is true if the store has values that are to be encrypted.
func (s *Store) unlock(secret []byte) (plain bool, err error) {
	var record *boxRecord
	var filled bool
	if err := s.db.View(func(b *bolt.Tx) (err error) {
		filled = b.Bucket(metaBucket) != nil
		record, err = readBoxRecord(b)
		return err
	}); err != nil {
		return false, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	switch {
	case record != nil:
		s.box, err = record.open(secret)
		return false, err
	case len(secret) == 0:
		return false, nil
	case filled:
		return true, nil
	}
	s.box, err = createBox(secret)
	return false, err
}

// encrypt replaces a plain store by an encrypted copy. The copy is a new file, so that no page of the file
// contains plain values.
func (s *Store) encrypt(o *bolt.Options, secret []byte) error {
	x, err := createBox(secret)
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, File)
	encrypted := file + ".encrypting"
	if err := os.Remove(encrypted); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the file of an interrupted start: %w", err)
	}
	to, err := bolt.Open(encrypted, 0o600, nil)
	if err != nil {
		return fmt.Errorf("create the encrypted store: %w", err)
	}
	if err := errors.Join(s.db.View(func(from *bolt.Tx) error { return copyEncrypted(x, to, from) }), to.Close()); err != nil {
		return fmt.Errorf("encrypt the store: %w", errors.Join(err, os.Remove(encrypted)))
	}
	if err := os.Rename(encrypted, file); err != nil {
		return fmt.Errorf("encrypt the store: %w", err)
	}
	if err := errors.Join(atomicfile.SyncDir(s.dir), s.db.Close()); err != nil {
		return fmt.Errorf("encrypt the store: %w", err)
	}
	if err := s.reopen(o); err != nil {
		return damage(err)
	}
	s.box = x
	s.log.Info("the store is encrypted from now on")
	if aside, _ := filepath.Glob(file + ".corrupt-*"); len(aside) > 0 { // the pattern is valid
		s.log.Warn("older stores that were set aside are not encrypted: remove them", "files", aside)
	}
	return nil
}

// copyEncrypted fills an empty store with the encrypted values of a plain one.
func copyEncrypted(x *box, to *bolt.DB, from *bolt.Tx) error {
	m, err := readMeta(from)
	if err != nil {
		return err
	}
	m.Written = m.Written.Sub(m.Written)
	for _, name := range valueBuckets() {
		if err := copyBucket(x, to, from.Bucket(name), name, m); err != nil {
			return err
		}
	}
	return to.Update(func(b *bolt.Tx) error {
		if _, err := b.CreateBucket(metaBucket); err != nil {
			return err
		}
		return errors.Join(x.put(b), values{b, m, x}.putMeta())
	})
}

func copyBucket(x *box, to *bolt.DB, from *bolt.Bucket, name []byte, m *Meta) error {
	if from == nil {
		return fmt.Errorf("bucket %q is missing", name)
	}
	c := from.Cursor()
	k, v := c.First()
	for first := true; first || k != nil; first = false {
		if err := to.Update(func(b *bolt.Tx) error {
			bucket, err := b.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			if err := bucket.SetSequence(from.Sequence()); err != nil {
				return err
			}
			for n := 0; k != nil && n < encryptStep; n++ {
				sealed := x.seal(name, string(k), v)
				m.Written = m.Written.Add(writtenSum(name, string(k), sealed))
				if err := bucket.Put(k, sealed); err != nil {
					return err
				}
				k, v = c.Next()
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
