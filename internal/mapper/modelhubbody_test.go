package mapper

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"orrery.dev/orrery/internal/wire"
	"orrery.dev/orrery/test/protocol"
)

// hubBody is the body of an answer, which for a stream goes on. It is for one reader.
type hubBody struct {
	spoke
	ctx    context.Context //nolint:containedctx // it is that of the request, as with any body
	left   []byte
	cut    int // after how many more bytes it is cut; negative: never
	closed chan struct{}
	stream bool
	mine   int
	start  int
	after  int64
	said   wire.Settings
	// greeted is the marker of the hello.
	greeted string
	mark    bool
}

// open begins a stream.
func (b *hubBody) open(r *http.Request) {
	q := r.URL.Query()
	after, err := strconv.ParseInt(cmp.Or(q.Get("after"), "0"), 10, 64)
	if err != nil {
		panic(err)
	}
	hello := b.hello(q.Get("marker"), after)
	hello.Resumed = hello.Continuous && after > 0 && after >= b.window && b.rng.IntN(8) > 0 && !b.settings.Purge
	b.session++
	b.say() // the one before hears of it
	b.stream, b.mine, b.start, b.said, b.after, b.mark = true, b.session, b.starts, b.settings, hello.Revision, hello.Resumed
	b.greeted = hello.Marker
	if hello.Resumed {
		b.after = after
	}
	b.left = protocol.Lines(wire.Frame{Hello: hello})
}

// Close implements io.Closer.
func (b *hubBody) Close() error {
	close(b.closed)
	return nil
}

// Read implements io.Reader.
func (b *hubBody) Read(to []byte) (int, error) {
	for len(b.left) == 0 {
		if !b.stream {
			return 0, io.EOF
		}
		b.mu.Lock()
		err := b.more()
		changed := b.changed
		b.mu.Unlock()
		if err != nil && len(b.left) == 0 {
			return 0, err
		}
		if len(b.left) > 0 {
			break
		}
		ping := time.NewTimer(30 * time.Second)
		select {
		case <-changed:
		case <-ping.C:
			b.left = protocol.Lines(wire.Frame{Ping: &wire.Ping{}})
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-b.closed:
			return 0, errors.New("closed")
		}
		ping.Stop()
	}
	b.mu.Lock()
	broken := b.dead.Load() || b.mood.away
	b.mu.Unlock()
	n := min(len(to), len(b.left))
	if b.cut >= 0 {
		n = min(n, b.cut)
	}
	if broken || n == 0 {
		return 0, errCut
	}
	copy(to, b.left[:n])
	b.left = b.left[n:]
	if b.cut >= 0 {
		b.cut -= n
	}
	return n, nil
}

// more adds what has happened since the last time.
func (b *hubBody) more() error {
	if b.dead.Load() || b.mood.away || b.mood.refuse != 0 || b.start != b.starts {
		return errCut
	}
	var out []any
	if !b.said.Equal(b.settings) {
		b.said = b.settings
		out = append(out, wire.Frame{Settings: &b.said})
	}
	if b.mine != b.session {
		b.stream = false
		b.left = protocol.Lines(append(out, wire.Frame{Bye: &wire.Bye{Reason: wire.ByeReplaced}})...)
		return nil
	}
	for _, l := range b.log {
		if l.revision > b.after {
			out, b.mark = append(out, b.placed(l.frame, l.revision, b.greeted)), true
		}
	}
	b.after = b.revision
	if b.mark {
		out, b.mark = append(out, wire.Frame{Mark: b.center.mark(b.revision)}), false
	}
	b.left = protocol.Lines(out...)
	return nil
}
