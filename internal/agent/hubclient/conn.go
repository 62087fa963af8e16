package hubclient

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialTimeout is how long the hub may take to accept a connection.
const dialTimeout = 20 * time.Second

// connections are the open connections to the hub. They are kept so that all can be
// closed at once: HTTP/2 requests share a connection, and one that has gone silent would
// be used for new requests until these time out.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

// connection leaves its connections when it is closed.
type connection struct {
	net.Conn
	of *connections
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &connection{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[k] = struct{}{}
	return k, nil
}

// Close implements net.Conn.
func (k *connection) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k)
	k.of.mu.Unlock()
	return k.Conn.Close()
}

// drop closes all connections; requests over them fail. What they have not sent yet is
// forgotten: the network would go on trying for a long time, and it would arrive after
// what is sent over others, perhaps with a credential that is spent by then.
func (c *connections) drop() {
	c.mu.Lock()
	open := c.open
	c.open = map[*connection]struct{}{}
	c.mu.Unlock()
	for k := range open {
		if tcp, ok := k.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it is closed in any case
		}
		_ = k.Conn.Close() // it is not used any more in any case
	}
}
