package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestReadOnlyFileSystem opens a store of a file system that is read-only: what it holds is read, commits fail, and the
// next open finds it closed as cleanly as before. A new store needs a file system that can be written.
func TestReadOnlyFileSystem(t *testing.T) {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	var readOnly atomic.Bool
	options := bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType, OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		if readOnly.Load() && flag&os.O_RDWR != 0 {
			return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EROFS}
		}
		return os.OpenFile(name, flag, mode)
	}}
	open := func(dir string) (*Store, error) { return OpenWith(options, dir, "paris", nil, quiet) }
	readOnly.Store(true)
	if _, err := open(t.TempDir()); !errors.Is(err, syscall.EROFS) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a new store on a read-only file system: %v", err)
	}
	readOnly.Store(false)
	s, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	writes := func(s *Store) (err error) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		err = s.Write(t.Context(), func(x *Tx) error {
			x.Target.SetAggregated(key.NewResource("odd.example", "odds"), true)
			return nil
		})
		cancel()
		running.Wait()
		return err
	}
	if err := writes(s); err != nil || s.IsReadOnly() || s.CanReopen() {
		t.Errorf("a commit: %v; read-only %v, can reopen %v", err, s.IsReadOnly(), s.CanReopen())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	readOnly.Store(true)
	s, err = open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !s.IsReadOnly() || s.Failing() == nil || len(s.Meta().Aggregated) != 1 {
		t.Errorf("read-only %v, failing %v, meta %+v", s.IsReadOnly(), s.Failing(), s.Meta())
	}
	if _, err := open(dir); err == nil || !strings.Contains(err.Error(), "another agent is running on it") {
		t.Errorf("a second agent on it: %v", err)
	}
	if err := writes(s); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a commit on a read-only file system: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanFile)); err != nil {
		t.Errorf("the store is not closed cleanly any more: %v", err)
	}
	readOnly.Store(false)
	if s, err = open(dir); err != nil || s.IsReadOnly() {
		t.Fatalf("on a file system that can be written again: %v", err)
	}
	if err := errors.Join(writes(s), s.Close()); err != nil {
		t.Error(err)
	}
}
