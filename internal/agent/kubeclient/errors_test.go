package kubeclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
)

// TestCause checks that the text of an error has the cause and the address of the API server, and no parts
// that differ each time.
func TestCause(t *testing.T) {
	server := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443}
	reset := func(port int) error {
		return fmt.Errorf("apply: %w", &url.Error{Op: "Patch", URL: "https://x?timeout=4.2s", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: server, Err: errors.New("connection reset by peer"),
		}})
	}
	stream := func(id int) error {
		return &url.Error{Op: "Patch", URL: "https://x", Err: fmt.Errorf("stream error: stream ID %d; INTERNAL_ERROR", id)}
	}
	for want, both := range map[string][2]error{
		"read tcp 10.0.0.1:6443: connection reset by peer": {reset(1), reset(2)},
		"stream error: INTERNAL_ERROR":                     {stream(1), stream(45)},
		"refused":                                          {errors.New("refused"), errors.New("refused")},
	} {
		for _, err := range both {
			if got := Cause(err); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}
