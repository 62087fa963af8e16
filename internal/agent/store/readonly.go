package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// isReadOnly reports whether an error is that of a file system that nothing can be written to.
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// openReadOnly opens the store of a file system that nothing can be written to. What it holds is enforced, and each
// commit fails.
func openReadOnly(s *Store, file string, o bolt.Options, why error) (err error) {
	o.ReadOnly = true
	if s.db, err = bolt.Open(file, 0o600, &o); err != nil {
		return err
	}
	why = fmt.Errorf("the file system is read-only: %w", why)
	s.failing.Store(&why)
	s.log.Error("the store cannot be written; what it holds is still enforced", "error", why)
	return nil
}

// CanReopen reports whether a store that is read-only can be written if it is opened again.
func CanReopen(s *Store) bool {
	if !ReadOnly(s) {
		return false
	}
	f, err := os.OpenFile(filepath.Join(s.dir, File), os.O_RDWR, 0)
	return err == nil && f.Close() == nil
}

// restrict sets the permissions of a file that has others.
func restrict(file string, mode os.FileMode) error {
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(file, mode)
}
