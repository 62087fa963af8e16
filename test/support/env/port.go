package env

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken from below the range that the kernel hands out for outgoing
// connections, so that one stays free while the process that has it restarts.
const (
	firstPort = 16000
	lastPort  = 32000
)

// address reserves a loopback address for as long as the test runs.
func address(t T) string {
	t.Helper()
	return loopback(reserve(t, "port", firstPort, lastPort, func(port int) error {
		probe, err := net.Listen("tcp", loopback(port))
		if err != nil {
			return err
		}
		return probe.Close()
	}))
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// reserve takes one of the things with a number from first up to, not including,
// end that is free, for as long as the test runs. Test processes on one machine agree by file locks, which the kernel drops
// when a process dies.
func reserve(t T, thing string, first, end int, free func(n int) error) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("orrery-test-%ss-%d", thing, os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("reserve a %s: %v", thing, err)
	}
	for range 1000 {
		n := first + rand.IntN(end-first)
		file, err := lock(filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			continue
		}
		if free(n) != nil {
			_ = file.Close() // it is another's
			continue
		}
		t.Cleanup(func() { _ = file.Close() })
		return n
	}
	t.Fatalf("reserve a %s: none is free from %d to %d", thing, first, end)
	return 0
}

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

// Address reserves an address, HOST:PORT, for as long as the test runs.
func Address(t T) string {
	t.Helper()
	return address(t)
}
