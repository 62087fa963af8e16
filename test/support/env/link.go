package env

import (
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// linkChunk is the maximum number of bytes that a link forwards at once.
const linkChunk = 16 << 10

// Link is a TCP proxy with injectable faults: it forwards connections to Address to the target. It is
// safe for concurrent use. Faults affect existing and new connections, until Heal.
type Link struct {
	// Address is the HOST:PORT at which the link listens.
	Address string

	listener net.Listener
	ctx      context.Context
	open     sync.WaitGroup
	up, down atomic.Int64

	mu      sync.Mutex
	target  string
	changed chan struct{} // closed at each change of fault
	fault   fault
	conns   map[*linked]struct{}
}

// fault is the set of active faults of a link.
type fault struct {
	cut              bool
	holdUp, holdDown bool
	latency          time.Duration
	bytesPerSecond   int
	dropAfter        int64 // bytes from the target of one connection; 0 means no limit
}

// linked is one connection over the link.
type linked struct {
	client, target net.Conn
	// down counts the bytes forwarded from the target since the last DropMidFrame.
	down atomic.Int64
	// forgotten is true if nothing is forwarded any more, not even the end of the connection.
	forgotten atomic.Bool
}

func (c *linked) close() {
	_ = c.client.Close() // the connection is dropped in any case
	_ = c.target.Close()
}

// StartLink starts a link to target, which is HOST:PORT or a URL. It ends with
// the test.
func StartLink(t T, target string) *Link {
	t.Helper()
	return startLink(t, "127.0.0.1:0", target)
}

func startLink(t T, listen, target string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatalf("start a link: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &Link{
		Address: listener.Addr().String(), target: hostPort(target), listener: listener, ctx: ctx,
		changed: make(chan struct{}), conns: map[*linked]struct{}{},
	}
	l.open.Go(l.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close() // it has no state
		l.open.Wait()
	})
	return l
}

func hostPort(target string) string {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return u.Host
	}
	return target
}

// Cut closes all connections, and each new one at once.
func (l *Link) Cut() {
	l.set(func(f *fault) { f.cut = true })
	l.each((*linked).close)
}

// CutUp silently delays all bytes from clients until Heal, as TCP does when packets are lost.
func (l *Link) CutUp() { l.set(func(f *fault) { f.holdUp = true }) }

// CutDown silently delays all bytes from the target until Heal.
func (l *Link) CutDown() { l.set(func(f *fault) { f.holdDown = true }) }

// Forget silently stops to forward existing connections, like a NAT that has lost its table. It does not
// affect new ones.
func (l *Link) Forget() {
	l.each(func(c *linked) { c.forgotten.Store(true) })
}

// Slow adds a latency to each forwarded chunk, and limits the rate of each direction of a connection; 0
// means no limit.
func (l *Link) Slow(latency time.Duration, bytesPerSecond int) {
	l.set(func(f *fault) { f.latency, f.bytesPerSecond = latency, bytesPerSecond })
}

// DropMidFrame ends each connection after exactly n more bytes from the target.
func (l *Link) DropMidFrame(n int64) {
	l.each(func(c *linked) { c.down.Store(0) })
	l.set(func(f *fault) { f.dropAfter = n })
}

// Heal ends all faults. Closed and forgotten connections do not recover.
func (l *Link) Heal() { l.set(func(f *fault) { *f = fault{} }) }

// Redirect closes all connections and forwards new ones to another target, which is HOST:PORT or a URL.
func (l *Link) Redirect(target string) {
	l.mu.Lock()
	l.target = hostPort(target)
	l.mu.Unlock()
	l.each((*linked).close)
}

// Bytes returns the numbers of bytes forwarded so far, up to the target and down to clients.
func (l *Link) Bytes() (up, down int64) { return l.up.Load(), l.down.Load() }

func (l *Link) set(change func(*fault)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.fault)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) each(do func(*linked)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		do(c)
	}
}

// state returns the current faults. changed is closed at the next change.
func (l *Link) state() (f fault, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault, l.changed
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.open.Go(func() { l.serve(client) })
	}
}

// serve forwards between a connection and a new one to the target until one of them ends.
func (l *Link) serve(client net.Conn) {
	defer client.Close()
	l.mu.Lock()
	address := l.target
	l.mu.Unlock()
	target, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", address)
	if err != nil {
		return
	}
	c := &linked{client: client, target: target}
	defer c.close()
	if !l.add(c) {
		return
	}
	defer l.remove(c)
	defer context.AfterFunc(l.ctx, c.close)()
	var both sync.WaitGroup
	both.Go(func() { l.pass(c, true) })
	both.Go(func() { l.pass(c, false) })
	both.Wait()
}

// add registers a connection. It returns false if the link is cut.
func (l *Link) add(c *linked) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.cut {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Link) remove(c *linked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pass copies one direction until the connection ends, and then closes both ends, or, if the connection
// is forgotten, only the one that has ended.
func (l *Link) pass(c *linked, up bool) {
	from, to := c.target, c.client
	if up {
		from, to = c.client, c.target
	}
	defer func() {
		if c.forgotten.Load() {
			_ = from.Close() // it has ended
		} else {
			c.close()
		}
	}()
	buffer := make([]byte, linkChunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !l.forward(c, to, buffer[:n], up) || err != nil {
			return
		}
	}
}

// forward writes a chunk when the faults allow it, and reports whether the connection continues.
func (l *Link) forward(c *linked, to net.Conn, chunk []byte, up bool) bool {
	f, ok := l.wait(up, len(chunk))
	if !ok {
		return false
	}
	if c.forgotten.Load() {
		return true
	}
	whole, count := len(chunk), &l.up
	if !up {
		count = &l.down
		if f.dropAfter > 0 {
			chunk = chunk[:min(int64(whole), max(0, f.dropAfter-c.down.Load()))]
		}
	}
	// Count before the write: a receiver may call Bytes at once.
	count.Add(int64(len(chunk)))
	if !up {
		c.down.Add(int64(len(chunk)))
	}
	n, err := to.Write(chunk)
	count.Add(int64(n - len(chunk)))
	return err == nil && n == whole
}

// wait waits until a chunk of a size may be forwarded. It returns false if the link ends first.
func (l *Link) wait(up bool, size int) (fault, bool) {
	for {
		f, changed := l.state()
		if !(up && f.holdUp || !up && f.holdDown) {
			return f, l.delay(f, size)
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			return f, false
		}
	}
}

// delay waits as long as a slow link needs for size bytes. It returns false if the link ends first.
func (l *Link) delay(f fault, size int) bool {
	d := f.latency
	if f.bytesPerSecond > 0 {
		d += time.Duration(size) * time.Second / time.Duration(f.bytesPerSecond)
	}
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}
