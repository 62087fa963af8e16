// Package ports reserves TCP ports for tests. A reservation holds until the test ends, also while no
// process listens. Test processes of one user on a machine agree by file locks.
//
// It imports only the standard library.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// T is the part of *testing.T that the package needs.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// The ports are below those that the kernel assigns to outgoing connections. A port therefore stays
// free while the process that listens there restarts.
const (
	firstPort = 16000
	endPort   = 32000
)

// attempts is how many random numbers Number tries.
const attempts = 1000

// Reserve returns an address, 127.0.0.1:PORT, at which no process listens. No other test gets it until
// this test ends.
func Reserve(t T) string {
	t.Helper()
	return address(Number(t, "port", firstPort, endPort, func(port int) error {
		probe, err := net.Listen("tcp", address(port))
		if err != nil {
			return err
		}
		return probe.Close()
	}))
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Number reserves a number from first up to, but not including, end until the test ends. kind names
// what the number stands for: numbers of different kinds are independent. probe, if not nil, returns an
// error for a number that is in use. The kernel drops the lock of a process that dies.
func Number(t T, kind string, first, end int, probe func(n int) error) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("orrery-test-%ss-%d", kind, os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("reserve a %s: %v", kind, err)
	}
	var last error
	for range attempts {
		n := first + rand.IntN(end-first) // which one is free depends on other processes, not on a seed
		file, err := lock(filepath.Join(dir, strconv.Itoa(n)))
		if err == nil && probe != nil {
			if err = probe(n); err != nil {
				_ = file.Close() // a program that does not know the lock uses the number
			}
		}
		if err != nil {
			last = err
			continue
		}
		t.Cleanup(func() { _ = file.Close() })
		return n
	}
	t.Fatalf("reserve a %s: no free number in %d random attempts from %d to %d; last error: %v", kind, attempts, first, end-1, last)
	return 0
}

// lock opens a file and locks it until it is closed. It fails if another process has the lock.
func lock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return file, nil
}
