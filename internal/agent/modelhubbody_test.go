package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// hubBody is the body of a response; that of a stream does not end. It is used by one goroutine.
type hubBody struct {
	spoke
	ctx          context.Context //nolint:containedctx // it is that of the request, as with any body
	left         []byte
	cut          int // after how many more bytes it is cut; negative: never
	closed       chan struct{}
	stream       bool
	mine         int
	start        int
	after        int64
	sentSettings wire.Settings
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
	b.sessions[b.shard]++
	b.say() // ends the previous session
	b.stream, b.mine, b.start, b.sentSettings, b.after, b.mark = true, b.sessions[b.shard], b.starts, b.settings, hello.Revision, hello.Resumed
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

// more adds the frames of changes since the last call.
func (b *hubBody) more() error {
	if b.dead.Load() || b.mood.away || b.mood.refuse != 0 || b.start != b.starts || b.shard.Total() != max(1, b.shards) {
		return errCut
	}
	var out []any
	if !b.sentSettings.Equal(b.settings) {
		b.sentSettings = b.settings
		out = append(out, wire.Frame{Settings: &b.sentSettings})
	}
	if b.mine != b.sessions[b.shard] {
		b.stream = false
		b.left = protocol.Lines(append(out, wire.Frame{Bye: &wire.Bye{Reason: wire.ByeReplaced}})...)
		return nil
	}
	for _, l := range b.log {
		if l.revision > b.after && (subject(l.frame) == "" || b.covers(subject(l.frame))) {
			out, b.mark = append(out, b.placed(l.frame, l.revision, b.greeted)), true
		}
	}
	b.after = b.revision
	if b.mark {
		out, b.mark = append(out, wire.Frame{Mark: b.spoke.mark(b.revision)}), false
	}
	b.left = protocol.Lines(out...)
	return nil
}

func (s spoke) walk(call string, body *wire.Decoder) []byte {
	var w wire.Walk
	if err := body.Decode(&w); err != nil {
		return nil
	}
	k := s.kept[s.shard.String()+call]
	if k.index == nil || k.revision != w.Revision || s.rng.IntN(8) == 0 {
		var leaves []wire.Leaf
		if call == route.Walk {
			for k, f := range s.content(s.revision) {
				leaves = append(leaves, wire.Leaf{Key: k, Sum: leafOf(f)})
			}
		} else {
			for k, r := range s.reports {
				if s.covers(k) {
					leaves = append(leaves, wire.Leaf{Key: k, Sum: r.Sum()})
				}
			}
		}
		slices.SortFunc(leaves, func(a, b wire.Leaf) int { return strings.Compare(a.Key, b.Key) })
		index, err := wire.NewIndex(leaves)
		if err != nil {
			panic(err)
		}
		k = keptIndex{s.revision, index}
		s.kept[s.shard.String()+call] = k
	}
	hello, all := s.hello(w.Marker, w.After), k.index.Span("", "")
	hello.Revision, hello.Marker, hello.Root, hello.Count = k.revision, s.marker(k.revision), all.Sum, all.Count
	out := []any{wire.Frame{Hello: hello}}
	for _, difference := range k.index.Answer(restOf[wire.Span](body)) {
		out = append(out, wire.Frame{RangeDifference: &difference})
	}
	return protocol.Lines(append(out, wire.Frame{Mark: &wire.Mark{Revision: k.revision, Root: all.Sum, Count: all.Count, Marker: hello.Marker}})...)
}
