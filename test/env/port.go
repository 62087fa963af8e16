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

// address reserves a loopback address for as long as the test runs. Test
// processes on one machine agree by file locks, which the kernel drops when a
// process dies.
func address(t T) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("orrery-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := lockPort(dir, port)
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = lock.Close() })
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	t.Fatalf("reserve a port: none is free between %d and %d", firstPort, lastPort)
	return ""
}

func lockPort(dir string, port int) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock port %d: %w", port, err)
	}
	probe, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, probe.Close()
}
