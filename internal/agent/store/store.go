package store

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// File is the name of the store in the agent's data directory.
	File = "agent.db"
	// cleanFile is a file beside a store that was closed cleanly. It does not exist while the store is
	// open. Open checks a store without it.
	cleanFile = File + ".clean"
	// lockWait is the time for which Open waits until another process closes the store.
	lockWait = 2 * time.Second
)

// Store keeps the agent's state on disk. It is safe for concurrent use. Writes are submitted to Run,
// which groups them into transactions.
type Store struct {
	*database
	*committer
	scanner
	log *slog.Logger
	dir string
	// lock is the directory, locked while the store is read-only; nil if the store is not read-only.
	lock *os.File
}

func newStore(dir string, log *slog.Logger) *Store {
	d := &database{}
	return &Store{database: d, committer: newCommitter(d, log), scanner: scanner{d}, log: log, dir: dir}
}

// Halt returns the reason why the agent must not change the cluster, as of the last commit; it is empty
// if the agent may. observes reports whether a halted agent continues to observe.
func (s *Store) Halt() (reason string, observes bool) {
	m := s.Meta()
	return m.Halt(), m.Observes()
}

// CanReopen reports whether a read-only store is writable after it is opened again.
func (s *Store) CanReopen() bool {
	if !s.IsReadOnly() {
		return false
	}
	f, err := os.OpenFile(filepath.Join(s.dir, File), os.O_RDWR, 0)
	return err == nil && f.Close() == nil
}

// Close closes the store. Run must have returned, and no other call may be in progress.
func (s *Store) Close() error {
	defer func() { _ = s.lock.Close() }() // it may be nil
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	if s.unsound.Load() || s.IsReadOnly() {
		return nil // the next start checks it
	}
	if err := os.WriteFile(filepath.Join(s.dir, cleanFile), nil, 0o600); err != nil {
		s.log.Warn("the store could not be marked as closed cleanly; the next start checks it", "error", err)
	}
	return nil
}

// reopen opens the file again, with other options or after it was replaced.
func (s *Store) reopen(o *bolt.Options) (err error) {
	s.db, err = bolt.Open(filepath.Join(s.dir, File), 0o600, o)
	return err
}
