package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"
)

var (
	// errCorrupt is returned if the file is damaged.
	errCorrupt = errors.New("the store is damaged")
	// errOutdated is returned if the agent must not continue with the store.
	errOutdated = errors.New("another agent has acted since, with another store or a newer copy of this one")
)

// damage wraps an error as errCorrupt, unless it is an error of the operating system.
func damage(err error) error {
	var system syscall.Errno
	if errors.Is(err, berrors.ErrTimeout) || errors.As(err, &system) {
		return err
	}
	return fmt.Errorf("%w: %w", errCorrupt, err)
}

// guarded runs a function that reads a file that may be damaged. It returns errCorrupt if the function
// panics, like bbolt, or accesses an invalid address that a damaged page contains.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errCorrupt, r)
		}
	}()
	return f()
}
