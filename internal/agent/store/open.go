package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Open opens or creates the store in dir for a location. It sets a damaged store aside and creates a new
// one, whose content comes from the hub: a new store has no objects that could be removed. Open fails if
// another process has the store open, or if the store belongs to another location.
//
// With a secret, all values of the store are encrypted, also existing ones. Open fails with ErrKey if the
// store was encrypted with another secret.
func Open(dir string, location key.Location, secret []byte, log *slog.Logger) (*Store, error) {
	return OpenWith(bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType}, dir, location, secret, log)
}

// OpenWith is Open with options of bbolt.
func OpenWith(o bolt.Options, dir string, location key.Location, secret []byte, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	if err := restrict(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict access to data directory: %w", err)
	}
	s, err := tryStore(o, dir, location, secret, log)
	if errors.Is(err, errCorrupt) || errors.Is(err, errOutdated) {
		if err := setAside(dir, log, err); err != nil {
			return nil, err
		}
		s, err = tryStore(o, dir, location, secret, log)
	}
	if err != nil {
		return nil, fmt.Errorf("open store in %q: %w", dir, err)
	}
	return s, nil
}

// keptAside is the number of stores that stay on disk after they were set aside. Each may be as large as
// the store.
const keptAside = 2

// setAside renames a damaged store, so that an administrator can inspect it. It removes stores that were
// set aside before, except for the newest.
func setAside(dir string, log *slog.Logger, reason error) error {
	from := filepath.Join(dir, File)
	to := from + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("set damaged store aside: %w", err)
	}
	if err := removeAside(dir); err != nil {
		log.Warn("older stores that were set aside cannot be removed", "error", err)
	}
	log.Error("the store cannot be used and was set aside; no object is removed until the hub has sent all desired objects again", "error", reason, "file", to)
	return nil
}

// removeAside removes the stores that were set aside, except for the newest ones by the time in their
// names.
func removeAside(dir string) (err error) {
	entries, err := os.ReadDir(dir) // sorted by name, and so by time
	var aside []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), File+".corrupt-") {
			aside = append(aside, filepath.Join(dir, e.Name()))
		}
	}
	for _, file := range aside[:max(0, len(aside)-keptAside)] {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// tryStore opens the store, and checks a store that was not closed cleanly.
func tryStore(o bolt.Options, dir string, location key.Location, secret []byte, log *slog.Logger) (*Store, error) {
	file := filepath.Join(dir, File)
	s := newStore(dir, log)
	err := guarded(func() error {
		err := s.reopen(&o)
		if isReadOnly(err) {
			err = s.openReadOnly(o, err)
		}
		if err != nil {
			return damage(err)
		}
		if err := restrict(file, 0o600); err != nil {
			return err
		}
		return s.check(&o, secret)
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, errors.New("another agent is running on it")
	case errors.Is(err, ErrKey):
		err = fmt.Errorf("%w: give that key by --store-key-file; if the key is lost, remove %q: the agent restores the store from the hub and the cluster", err, file)
	case err == nil:
		err = s.prepare(location)
	}
	if err != nil && s.db != nil {
		_ = s.lock.Close() // it may be nil
		return nil, errors.Join(err, guarded(s.db.Close))
	}
	return s, err
}

// check derives the key of the store, and inspects a store that was not closed cleanly. With a secret, it
// encrypts a store that is not encrypted.
func (s *Store) check(o *bolt.Options, secret []byte) error {
	plain, err := s.unlock(secret)
	if err != nil {
		return err
	}
	clean := true
	if s.IsReadOnly() { // the store and its cleanFile stay as they are
		_, err = os.Stat(filepath.Join(s.dir, cleanFile))
	} else {
		err = os.Remove(filepath.Join(s.dir, cleanFile))
	}
	if errors.Is(err, fs.ErrNotExist) {
		clean, err = false, nil
	}
	if err == nil && (plain || !clean) {
		err = s.Inspect()
	}
	if err == nil && plain {
		err = s.encrypt(o, secret)
	}
	return err
}

// prepare initializes a new store. It writes nothing to a store with a Meta, so that an agent can start on
// a full disk.
func (s *Store) prepare(location key.Location) error {
	var m *Meta
	if err := s.db.View(func(b *bolt.Tx) (err error) {
		if b.Bucket(metaBucket) != nil {
			m, err = readMeta(b)
		}
		return err
	}); err != nil {
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if m == nil {
		m = &Meta{Location: location, Life: rand.Text(), Fresh: true, SearchPending: true, Settings: wire.Settings{PruneMaxPercent: prunePercent}}
		if err := s.db.Update(func(b *bolt.Tx) error {
			for _, name := range append(valueBuckets(), metaBucket) {
				if _, err := b.CreateBucketIfNotExists(name); err != nil {
					return err
				}
			}
			return errors.Join(s.box.put(b), values{b, m, s.box}.putMeta())
		}); err != nil {
			return err
		}
	}
	if m.Location != location {
		return fmt.Errorf("it belongs to location %q, not to %q", m.Location, location)
	}
	if m.Outdated {
		return errOutdated
	}
	if m.Life == "" { // an older version wrote the store; the next commit writes this
		m.Life = rand.Text()
	}
	m.Prune = m.Prune.loaded(time.Now())
	s.current.Store(m)
	return nil
}

// restrict sets the permissions of a file, if they differ.
func restrict(file string, mode os.FileMode) error {
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(file, mode)
}
