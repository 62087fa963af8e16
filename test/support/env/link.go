package env

import (
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// linkChunk is how many bytes a link forwards at once.
const linkChunk = 16 << 10

// Link is a TCP proxy that can be made to fail: clients connect to Address, and what
// they send is forwarded to the target. It is safe for concurrent use. Faults affect
// existing and new connections, until Heal.
type Link struct {
	// Address is HOST:PORT of where the link listens.
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

// fault is what is wrong with a link.
type fault struct {
	cut              bool
	holdUp, holdDown bool
	latency          time.Duration
	bytesPerSecond   int
	dropAfter        int64 // bytes of one connection on the way down; 0: none
}

// linked is one connection over the link.
type linked struct {
	client, target net.Conn
	// down counts bytes passed on the way down since the last DropMidFrame.
	down atomic.Int64
	// forgotten says that nothing is forwarded any more, not even the end.
	forgotten atomic.Bool
}

func (c *linked) close() {
	_ = c.client.Close() // it is given up in any case
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

// Cut ends all connections, and every new one at once.
func (l *Link) Cut() {
	l.set(func(f *fault) { f.cut = true })
	l.each((*linked).close)
}

// CutUp silently holds back what clients send. It is delivered when the link is healed, as
// TCP does when packets are lost.
func (l *Link) CutUp() { l.set(func(f *fault) { f.holdUp = true }) }

// CutDown silently holds back what the target sends.
func (l *Link) CutDown() { l.set(func(f *fault) { f.holdDown = true }) }

// Forget makes existing connections silent for good, as a NAT does that has lost its
// table. New ones are not affected.
func (l *Link) Forget() {
	l.each(func(c *linked) { c.forgotten.Store(true) })
}

// Slow adds a latency to each piece that is passed on, and bounds the rate of
// each direction of a connection; 0: no bound.
func (l *Link) Slow(latency time.Duration, bytesPerSecond int) {
	l.set(func(f *fault) { f.latency, f.bytesPerSecond = latency, bytesPerSecond })
}

// DropMidFrame ends each connection after exactly n more bytes from the target.
func (l *Link) DropMidFrame(n int64) {
	l.each(func(c *linked) { c.down.Store(0) })
	l.set(func(f *fault) { f.dropAfter = n })
}

// Heal ends all faults. Connections that were cut or forgotten stay so.
func (l *Link) Heal() { l.set(func(f *fault) { *f = fault{} }) }

// Redirect ends all connections and forwards new ones to another target, which is
// HOST:PORT or a URL.
func (l *Link) Redirect(target string) {
	l.mu.Lock()
	l.target = hostPort(target)
	l.mu.Unlock()
	l.each((*linked).close)
}

// Bytes counts what was passed on so far, from the clients up to the target and
// down to the clients.
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

// state is the current fault; changed is closed when that changes.
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

// serve joins a connection with one to the target until either ends.
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

// add keeps the connection, unless the link is cut.
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

// pass copies one direction until the connection ends, and ends the other, which
// hears of it unless the connection is forgotten.
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

// forward passes on a piece when the faults let it, and says whether the
// connection goes on.
func (l *Link) forward(c *linked, to net.Conn, piece []byte, up bool) bool {
	f, ok := l.wait(up, len(piece))
	if !ok {
		return false
	}
	if c.forgotten.Load() {
		return true
	}
	whole, count := len(piece), &l.up
	if !up {
		count = &l.down
		if f.dropAfter > 0 {
			piece = piece[:min(int64(whole), max(0, f.dropAfter-c.down.Load()))]
		}
	}
	// It is counted before: who has read it may look at once.
	count.Add(int64(len(piece)))
	if !up {
		c.down.Add(int64(len(piece)))
	}
	n, err := to.Write(piece)
	count.Add(int64(n - len(piece)))
	return err == nil && n == whole
}

// wait waits until a piece of some size may pass. It returns false when the link
// ends first.
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

// delay waits as long as a slow link takes for size bytes. It returns false when the link
// ends first.
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
