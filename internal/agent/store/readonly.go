package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// isReadOnly reports whether an error is that of a file system that nothing can be written to.
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// openReadOnly opens the store of a file system that nothing can be written to. What it holds is enforced, and each
// commit fails.
func openReadOnly(s *Store, file string, o bolt.Options, why error) (err error) {
	o.ReadOnly = true
	if s.lock, err = lockDir(s.dir, o.Timeout, s.log); err != nil {
		return err
	}
	if s.db, err = bolt.Open(file, 0o600, &o); err != nil {
		_ = s.lock.Close() // nothing was written
		return err
	}
	why = fmt.Errorf("the file system is read-only: %w", why)
	s.failing.Store(&why)
	s.log.Error("the store cannot be written; what it holds is still enforced", "error", why)
	return nil
}

// lockDir keeps other processes from opening the store read-only, which bbolt would let any number do at a time. It
// waits for one that is ending. File systems of a network may not lock a directory: then a second agent is not
// noticed. Closing the directory unlocks it.
func lockDir(dir string, wait time.Duration, log *slog.Logger) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	const every = 50 * time.Millisecond
	for end := time.Now().Add(wait); ; <-time.After(every) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			if err != nil {
				log.Warn("the directory of the store can't be locked; no other agent may run on it", "error", err)
			}
			return d, nil
		}
		if !time.Now().Before(end) {
			return nil, errors.Join(berrors.ErrTimeout, d.Close())
		}
	}
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
