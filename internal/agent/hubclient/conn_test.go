package hubclient

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestDroppedConnectionsAreForgotten checks that unsent data of a connection does not arrive after
// the connection was dropped.
func TestDroppedConnectionsAreForgotten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &connections{open: map[*connection]struct{}{}}
	conn, err := c.dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	// The other side does not read. All buffers are full when several writes in a row fail.
	raw, err := conn.(*connection).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	block := make([]byte, 64<<10)
	for full := 0; full < 20; {
		n, failed := 0, error(nil)
		if err := raw.Write(func(fd uintptr) bool { n, failed = syscall.Write(int(fd), block); return true }); err != nil {
			t.Fatal(err)
		}
		switch {
		case failed == nil:
			written, full = written+n, 0
		case errors.Is(failed, syscall.EAGAIN):
			full++
			<-time.After(10 * time.Millisecond)
		case !errors.Is(failed, syscall.EINTR):
			t.Fatal(failed)
		}
	}
	c.drop()
	read, err := io.Copy(io.Discard, other)
	if err == nil || int(read) >= written {
		t.Errorf("%d of %d bytes have arrived, %v", read, written, err)
	}
}
