package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// dataDir is the directory for all files of a demo. A temporary one is removed at the end, unless a step
// failed: its log has the reason.
type dataDir struct {
	path string
	// keep is set if the user named the directory.
	keep   bool
	log    *os.File
	logger *slog.Logger
}

// openDataDir creates the directory at a path, or a temporary one without a path, and the log in it.
func openDataDir(path string) (d *dataDir, err error) {
	d = &dataDir{path: path, keep: path != ""}
	if !d.keep {
		if d.path, err = os.MkdirTemp("", "orrery-demo-"); err != nil {
			return nil, fmt.Errorf("make a data directory: %w", err)
		}
	} else if err := emptyDir(d.path); err != nil {
		return nil, err
	}
	if d.path, err = filepath.Abs(d.path); err != nil { // the hints are for other terminals
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if d.log, err = os.OpenFile(filepath.Join(d.path, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	d.logger = slog.New(slog.NewTextHandler(d.log, nil))
	return d, nil
}

// close closes the log. err is the error of the demo, which is returned with the path of the log unless
// the user interrupted the demo.
func (d *dataDir) close(err error, interrupted bool) error {
	err = errors.Join(err, d.log.Close())
	switch {
	case err != nil && !interrupted:
		return fmt.Errorf("%w (see the log in %s)", err, d.path)
	case !d.keep:
		return errors.Join(err, os.RemoveAll(d.path))
	}
	return err
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("data directory %q is not empty: a demo starts with a new one", dir)
	}
	return nil
}
