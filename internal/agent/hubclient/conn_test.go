package hubclient

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestDroppedConnectionsAreForgotten: what was written to a connection and is not on its way
// yet does not arrive once it has been dropped.
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
	// Nobody reads: all buffers are full when a second passes in which nothing can be written.
	written := 0
	for block, last := make([]byte, 64<<10), -1; last != written; {
		last = written
		if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		for err = nil; err == nil; {
			var n int
			n, err = conn.Write(block)
			written += n
		}
	}
	c.drop()
	read, err := io.Copy(io.Discard, other)
	if err == nil || int(read) >= written {
		t.Errorf("%d of %d bytes have arrived, %v", read, written, err)
	}
}
