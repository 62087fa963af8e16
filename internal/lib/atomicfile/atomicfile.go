// Package atomicfile writes files that are whole or not there, also after a power cut.
//
// It must never write a file in place.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile puts a file in the place of what is there, whole, and returns when it stays.
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

// SyncDir makes sure that what was renamed in a directory stays so.
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
