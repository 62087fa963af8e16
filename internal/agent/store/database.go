package store

import (
	"errors"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// database is the open file of a store, with its transactions.
type database struct {
	db *bolt.DB
	// box encrypts the values; nil if they are not encrypted.
	box     *box
	current atomic.Pointer[Meta]
	// unsound is true if a transaction may have found damage: the next start checks the file.
	unsound atomic.Bool
}

// Meta returns the store's Meta as of the last commit. The caller must not change it.
func (d *database) Meta() *Meta { return d.current.Load() }

// Encrypted reports whether the store is encrypted.
func (d *database) Encrypted() bool { return d.box != nil }

// IsReadOnly reports whether the store was opened on a read-only file system.
func (d *database) IsReadOnly() bool { return d.db.IsReadOnly() }

// View runs f in a read-only transaction. f must not block: a long transaction prevents bbolt from
// reusing pages.
func (d *database) View(f func(*Tx) error) error {
	err := guarded(func() error {
		return d.db.View(func(b *bolt.Tx) error {
			return f(newTx(b, d.Meta(), d.box))
		})
	})
	if errors.Is(err, errCorrupt) {
		d.unsound.Store(true)
	}
	return err
}

// commit runs f in a transaction and publishes the Meta after it. It returns the identities of objects
// that may have become another Root.
func (d *database) commit(f func(*Tx) error) (roots map[string]struct{}, err error) {
	next := *d.Meta()
	if err := guarded(func() error {
		return d.db.Update(func(b *bolt.Tx) error {
			t := newTx(b, &next, d.box)
			if err := f(t); err != nil {
				return err
			}
			roots = t.roots.ids
			return t.putMeta()
		})
	}); err != nil {
		return nil, err
	}
	d.current.Store(&next)
	return roots, nil
}

// Load runs a function that reads the whole store. If the function fails, the store may be damaged:
// the next start checks the file.
func (d *database) Load(f func() error) error {
	err := guarded(f)
	if err != nil {
		d.unsound.Store(true)
	}
	return err
}

// Copy writes a consistent copy of the store to a file.
func (d *database) Copy(file string) error {
	return d.db.View(func(b *bolt.Tx) error { return b.CopyFile(file, 0o600) })
}

// Inspect reads the whole store. It returns errCorrupt if the store is not consistent.
func (d *database) Inspect() error { return inspect(d.db, d.box) }
