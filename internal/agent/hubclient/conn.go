package hubclient

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds the time for opening a connection to the hub.
const dialTimeout = 20 * time.Second

// connections are the open connections to the hub. They are tracked so that all can be
// closed at once: HTTP/2 requests share a connection, and a dead one would be used for new
// requests until these time out.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

// connection is a connection that removes itself from its owner when it is closed.
type connection struct {
	net.Conn
	owner *connections
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &connection{Conn: conn, owner: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[k] = struct{}{}
	return k, nil
}

// Close implements net.Conn.
func (k *connection) Close() error {
	k.owner.mu.Lock()
	delete(k.owner.open, k)
	k.owner.mu.Unlock()
	return k.Conn.Close()
}

// drop closes all connections; requests over them fail. Unsent data is discarded: the kernel
// would retransmit it for a long time, and it could arrive after data of newer connections,
// with a credential that is no longer valid.
func (c *connections) drop() {
	c.mu.Lock()
	open := c.open
	c.open = map[*connection]struct{}{}
	c.mu.Unlock()
	for k := range open {
		if tcp, ok := k.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the connection is closed in any case
		}
		_ = k.Conn.Close() // the connection is not used any more
	}
}
