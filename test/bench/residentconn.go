package main

import (
	"net"
	"sync/atomic"
	"time"
)

// readsNothing is the rate of a client that does not read.
const readsNothing = -1

// countedConn counts the bytes that are read and written, and limits the rate of reads.
type countedConn struct {
	net.Conn
	in, out, rate *atomic.Int64
	closed        atomic.Bool
}

// Read implements net.Conn.
func (c *countedConn) Read(b []byte) (int, error) {
	const most, checkEvery = 32 << 10, 20 * time.Millisecond
	for c.rate.Load() == readsNothing && !c.closed.Load() {
		time.Sleep(checkEvery) //nolint:forbidigo // it reads nothing
	}
	rate := c.rate.Load()
	if rate > 0 {
		b = b[:min(len(b), most)]
	}
	n, err := c.Conn.Read(b)
	c.in.Add(int64(n))
	if rate > 0 {
		time.Sleep(time.Duration(n) * time.Second / time.Duration(rate)) //nolint:forbidigo // it is its pace
	}
	return n, err
}

// Write implements net.Conn.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.out.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}
