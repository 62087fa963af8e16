package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// cleanFile is beside a store that was closed cleanly, and missing while one is open. A
// store without it is checked when it is opened.
const cleanFile = File + ".clean"

// errCorrupt says that the store is damaged, errOutdated that it may no longer be gone by.
var (
	errCorrupt  = errors.New("the store is damaged")
	errOutdated = errors.New("another agent has acted since, with another store or a newer copy of this one")
)

// Open opens or creates the store in dir for a location. A damaged one is set aside, and
// its content comes back from the hub: a new store has nothing that could be removed. It
// fails if another process has the store open, or if it is another location's.
//
// With a secret, the store's values are encrypted, also those that are there. Open fails
// with ErrKey if the store was encrypted with another secret.
func Open(dir string, location key.Location, secret []byte, log *slog.Logger) (*Store, error) {
	return OpenWith(bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType}, dir, location, secret, log)
}

// OpenWith is Open with bbolt's options.
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

// keptAside is how many stores that were set aside stay on the disk: each may be as large as the store.
const keptAside = 2

// setAside renames a damaged store, so that an operator may look at it, and removes those that were set aside
// before it but for the newest.
func setAside(dir string, log *slog.Logger, why error) error {
	from := filepath.Join(dir, File)
	to := from + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("set damaged store aside: %w", err)
	}
	if err := removeAside(dir); err != nil {
		log.Warn("stores that were set aside before can't be removed", "error", err)
	}
	log.Error("the store can't be gone by and was set aside; nothing is removed until its content has come from the hub again", "error", why, "file", to)
	return nil
}

// removeAside removes all stores that were set aside but for the newest, by the time in their names.
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

// tryStore opens the store, and checks one that was not closed cleanly.
func tryStore(o bolt.Options, dir string, location key.Location, secret []byte, log *slog.Logger) (*Store, error) {
	file := filepath.Join(dir, File)
	s := &Store{log: log, dir: dir, work: make(chan *Commit, maxGroup), recovered: retry.NewSignal(), roots: RootNews{Signal: retry.NewSignal()}}
	err := guarded(func() (err error) {
		if s.db, err = bolt.Open(file, 0o600, &o); isReadOnly(err) {
			err = openReadOnly(s, file, o, err)
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
		err = fmt.Errorf("%w: give that key by --store-key-file; if it is lost, remove %q: what was in it comes back from the hub and the cluster", err, file)
	case err == nil:
		err = s.prepare(location)
	}
	if err != nil && s.db != nil {
		_ = s.lock.Close() // it may be nil
		return nil, errors.Join(err, guarded(s.db.Close))
	}
	return s, err
}

// check finds the store's key, and inspects a store that was not closed cleanly. It
// encrypts one that is not if it is to be.
func (s *Store) check(o *bolt.Options, secret []byte) error {
	plain, err := s.unlock(secret)
	if err != nil {
		return err
	}
	clean := true
	if ReadOnly(s) { // the store and the mark of its clean close stay as they are
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

// damage makes an error errCorrupt unless it is one of the system.
func damage(err error) error {
	var system syscall.Errno
	if errors.Is(err, berrors.ErrTimeout) || errors.As(err, &system) {
		return err
	}
	return fmt.Errorf("%w: %w", errCorrupt, err)
}

// guarded runs a function that reads a file that may be damaged, and returns errCorrupt if
// it panics, as bbolt does, or faults at an address that a damaged page names.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errCorrupt, r)
		}
	}()
	return f()
}

// Load runs a function that reads the whole store. If it fails, the store may be damaged:
// it is checked when it is opened again.
func (s *Store) Load(f func() error) error {
	err := guarded(f)
	if err != nil {
		s.unsound.Store(true)
	}
	return err
}

// Copy writes a consistent copy of the store to a file.
func (s *Store) Copy(file string) error {
	return s.db.View(func(b *bolt.Tx) error { return b.CopyFile(file, 0o600) })
}

// Inspect reads the whole store and returns errCorrupt if it is not consistent.
func (s *Store) Inspect() error {
	return s.db.View(func(b *bolt.Tx) error {
		info, err := os.Stat(s.db.Path())
		if err != nil {
			return err
		}
		if info.Size() < b.Size() {
			return fmt.Errorf("%w: %d bytes of %d", errCorrupt, info.Size(), b.Size())
		}
		if b.Bucket(metaBucket) == nil {
			return nil // it is new
		}
		if err := inspectValues(b, s.box); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
		// All reachable pages have been read, so this does not fault.
		var first error
		for err := range b.Check() {
			if first == nil {
				first = fmt.Errorf("%w: %w", errCorrupt, err)
			}
		}
		return first
	})
}

// inspectValues decodes all values and compares meta with them.
func inspectValues(b *bolt.Tx, x *box) error {
	m, err := readMeta(b)
	if err != nil {
		return err
	}
	var root, written wire.Sum
	count, deferred, unsent := 0, 0, 0
	for name, check := range map[string]func(k, v []byte) error{
		string(desiredBucket): func(k, v []byte) error {
			w, err := inspectWant(string(k), v)
			root, count = root.Add(w.Sum(string(k))), count+1
			if w.Deferred {
				deferred++
			}
			return err
		},
		string(recordBucket): func(k, v []byte) error {
			if _, err := key.ParseIdentity(string(k)); err != nil {
				return err
			}
			return json.Unmarshal(v, &Record{})
		},
		string(reportBucket): func(k, v []byte) error {
			if _, err := key.ParseLine("", string(k)); err != nil {
				return err
			}
			return json.Unmarshal(v, &wire.Report{})
		},
		string(unsentBucket): func(_, _ []byte) error { unsent++; return nil },
		string(guardBucket):  func(_, _ []byte) error { return nil },
		string(statusBucket): func(_, _ []byte) error { return nil },
	} {
		bucket := b.Bucket([]byte(name))
		if bucket == nil {
			return fmt.Errorf("%s is missing", name)
		}
		if err := bucket.ForEach(func(k, v []byte) error {
			plain, err := x.open([]byte(name), string(k), v)
			if err != nil {
				return err
			}
			if err := check(k, plain); err != nil {
				return fmt.Errorf("%s of %q: %w", name, k, err)
			}
			written = written.Add(writtenSum([]byte(name), string(k), v))
			return nil
		}); err != nil {
			return err
		}
	}
	if m.Root != root || m.Count != count || m.Deferred != deferred || m.Unsent != unsent {
		return fmt.Errorf("meta says %d entries with sum %s, there are %d with %s", m.Count, m.Root, count, root)
	}
	if m.Written != written {
		return fmt.Errorf("meta says that the sum of what was written is %s, it is %s", m.Written, written)
	}
	return nil
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
		return w, errors.New("the object does not have its digest")
	}
	return w, nil
}

// sumValues computes m.Written from all values.
func sumValues(b *bolt.Tx, m *Meta) error {
	for _, name := range valueBuckets() {
		bucket := b.Bucket(name)
		if bucket == nil {
			return fmt.Errorf("%s is missing", name)
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

// valueBuckets are all buckets but meta's.
func valueBuckets() [][]byte {
	return [][]byte{desiredBucket, recordBucket, reportBucket, unsentBucket, guardBucket, statusBucket}
}

// prepare fills a new store. It writes nothing to one that has a meta, so that an agent
// starts on a full disk.
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
		m = &Meta{Location: location, Life: rand.Text(), Fresh: true, Survey: true, Settings: wire.Settings{PruneMaxPercent: prunePercent}}
		if err := s.db.Update(func(b *bolt.Tx) error {
			for _, name := range append(valueBuckets(), metaBucket) {
				if _, err := b.CreateBucketIfNotExists(name); err != nil {
					return err
				}
			}
			return errors.Join(s.box.put(b), newTx(b, m, s.box).putMeta())
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
	if m.Life == "" { // it is of a former version; the next commit writes this
		m.Life = rand.Text()
	}
	m.Prune = m.Prune.loaded(time.Now())
	s.current.Store(m)
	return nil
}

// Close closes the store. Run must have returned, and no other call may be under way.
func (s *Store) Close() error {
	defer func() { _ = s.lock.Close() }() // it may be nil
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	if s.unsound.Load() || ReadOnly(s) {
		return nil // it is checked when it is opened again
	}
	if err := os.WriteFile(filepath.Join(s.dir, cleanFile), nil, 0o600); err != nil {
		s.log.Warn("the store could not be marked as closed cleanly; the next start checks it", "error", err)
	}
	return nil
}
