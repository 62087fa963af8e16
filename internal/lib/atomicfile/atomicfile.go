// Package atomicfile writes files atomically: after a crash or power failure, a file has either its
// old or its new content.
//
// It must never write a file in place.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces the file atomically. It returns after the data and the rename are synced to
// disk.
func WriteFile(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// SyncDir syncs a directory to disk, so that renames in it survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %q: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %q: %w", dir, err)
	}
	return nil
}
