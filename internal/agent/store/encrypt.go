package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

// encryptStep is how many values are copied in one transaction.
const encryptStep = 1000

// Encrypted says whether the store is encrypted.
func (s *Store) Encrypted() bool { return s.box != nil }

// unlock finds the key of the store. It fails with ErrKey if the secret is not the one that
// the store was encrypted with. plain says that a store that is not encrypted is to be.
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

// encrypt replaces a store that is not encrypted by one that is, in a new file, so that no
// page of the file still has what was there.
func (s *Store) encrypt(o *bolt.Options, secret []byte) error {
	x, err := createBox(secret)
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, File)
	part := file + ".encrypting"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what another start has left: %w", err)
	}
	to, err := bolt.Open(part, 0o600, nil)
	if err != nil {
		return fmt.Errorf("create the encrypted store: %w", err)
	}
	if err := errors.Join(s.db.View(func(from *bolt.Tx) error { return x.copy(to, from) }), to.Close()); err != nil {
		return fmt.Errorf("encrypt the store: %w", errors.Join(err, os.Remove(part)))
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("encrypt the store: %w", err)
	}
	if err := errors.Join(atomicfile.SyncDir(s.dir), s.db.Close()); err != nil {
		return fmt.Errorf("encrypt the store: %w", err)
	}
	if s.db, err = bolt.Open(file, 0o600, o); err != nil {
		return damage(err)
	}
	s.box = x
	s.log.Info("the store is encrypted from now on")
	if aside, _ := filepath.Glob(file + ".corrupt-*"); len(aside) > 0 { // the pattern is good
		s.log.Warn("stores that were set aside before are not encrypted: remove them", "files", aside)
	}
	return nil
}

// copy fills an empty store with what another one has, encrypted.
func (x *box) copy(to *bolt.DB, from *bolt.Tx) error {
	m, err := readMeta(from)
	if err != nil {
		return err
	}
	m.Written = m.Written.Sub(m.Written)
	for _, name := range valueBuckets() {
		if err := x.copyBucket(to, from.Bucket(name), name, m); err != nil {
			return err
		}
	}
	return to.Update(func(b *bolt.Tx) error {
		if _, err := b.CreateBucket(metaBucket); err != nil {
			return err
		}
		return errors.Join(x.put(b), newTx(b, m, x).putMeta())
	})
}

func (x *box) copyBucket(to *bolt.DB, from *bolt.Bucket, name []byte, m *Meta) error {
	if from == nil {
		return fmt.Errorf("%s is missing", name)
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
