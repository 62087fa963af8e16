package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// isReadOnly reports whether an error is that of a read-only file system.
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// openReadOnly opens the store on a read-only file system. The agent enforces its desired objects, and
// each commit fails with reason.
func (s *Store) openReadOnly(o bolt.Options, reason error) (err error) {
	o.ReadOnly = true
	if s.lock, err = lockDir(s.dir, o.Timeout, s.log); err != nil {
		return err
	}
	if err = s.reopen(&o); err != nil {
		_ = s.lock.Close() // nothing was written
		return err
	}
	s.setFailing(fmt.Errorf("the file system is read-only: %w", reason))
	return nil
}

// lockDir prevents other processes from opening the store read-only, which bbolt allows to many at a time.
// It waits for a process that is about to end. A network file system may not support locks of a directory:
// then nothing detects a second agent. Closing the directory unlocks it.
func lockDir(dir string, wait time.Duration, log *slog.Logger) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	const interval = 50 * time.Millisecond
	for end := time.Now().Add(wait); ; <-time.After(interval) {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			if err != nil {
				log.Warn("the directory of the store cannot be locked; ensure that no other agent runs on it", "error", err)
			}
			return d, nil
		}
		if !time.Now().Before(end) {
			return nil, errors.Join(berrors.ErrTimeout, d.Close())
		}
	}
}
