package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"

	"orrery.dev/orrery/test/env"
)

// proxy passes TCP connections on to a hub and counts what goes over them, both
// ways. It ends with the run.
type proxy struct {
	// url is where it listens.
	url      string
	to       string
	bytes    atomic.Int64
	listener net.Listener
	ctx      context.Context
	open     sync.WaitGroup
}

func startProxy(t env.T, hub string) (*proxy, error) {
	u, err := url.Parse(hub)
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	p := &proxy{url: "https://" + listener.Addr().String(), to: u.Host, listener: listener, ctx: t.Context()}
	p.open.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close() // it has no state
		p.open.Wait()
	})
	return p, nil
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.open.Go(func() { p.serve(conn) })
	}
}

// serve joins a connection with one to the hub until either ends, or the run does.
func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	hub, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer hub.Close()
	stop := context.AfterFunc(p.ctx, func() { _ = errors.Join(conn.Close(), hub.Close()) })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, hub}, {hub, conn}} {
		both.Go(func() {
			_, _ = io.Copy(counted{way[1], &p.bytes}, way[0]) // its end is the connection's
			_ = errors.Join(conn.Close(), hub.Close())
		})
	}
	both.Wait()
}

// counted adds up what is written.
type counted struct {
	to    io.Writer
	bytes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}
