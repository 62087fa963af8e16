package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orrery.dev/orrery/internal/protocol/wire"
)

// comparison finds out, in pages of bounded size, in which keys a set of the agent's
// differs from the hub's.
type comparison struct {
	hub  *Client
	call string // route.Walk or route.ReportsWalk
	mine *wire.Index
	// about is the first line of each request.
	about wire.Walk
	// heard is called whenever something arrives, even an empty line.
	heard func()
	// greeted is called with the first hello; its error ends the comparison.
	greeted func(wire.Hello) error

	// first is the first hello, steady says that all answers were of its revision.
	first  *wire.Hello
	steady bool
	// theirs are keys of which the hub has another leaf than the agent, or of which the
	// agent has none; ours are keys that only the agent has.
	theirs, ours []string
}

// run compares until the difference is known. After an error nothing that was found is
// valid.
func (c *comparison) run(ctx context.Context) error {
	c.steady = true
	for ask := []wire.Span{c.mine.Span("", "")}; len(ask) > 0; {
		n := min(len(ask), wire.MaxSpans)
		more, err := c.page(ctx, ask[:n])
		if err != nil {
			return fmt.Errorf("%s: %w", c.call, err)
		}
		ask = append(ask[n:], more...)
	}
	return nil
}

// page asks for some spans and returns those to ask for next.
func (c *comparison) page(ctx context.Context, ask []wire.Span) (more []wire.Span, err error) {
	asked := make(map[[2]string]bool, len(ask))
	for _, s := range ask {
		asked[[2]string{s.From, s.To}] = true
	}
	lines := func(enc *wire.Encoder) error {
		if err := enc.Encode(c.about); err != nil {
			return err
		}
		return encodeAll(enc, ask)
	}
	err = c.hub.frames(ctx, c.call, lines, c.heard, func(f wire.Frame) error {
		switch {
		case f.Hello != nil:
			return c.hello(*f.Hello)
		case c.first == nil:
			return errors.New("the first frame is not a hello")
		case f.Mark != nil:
			return c.same(f.Mark.Revision, f.Mark.Marker)
		case f.Part == nil:
			return nil
		}
		span := [2]string{f.Part.From, f.Part.To}
		if !asked[span] {
			return fmt.Errorf("the answer has keys from %q to %q, which were not asked for", f.Part.From, f.Part.To)
		}
		delete(asked, span)
		d := c.mine.Compare(*f.Part)
		more = append(more, d.Ask...)
		c.theirs, c.ours = append(c.theirs, d.Theirs...), append(c.ours, d.Mine...)
		return nil
	})
	return more, err
}

// hello takes the first hello, and compares the later ones with it.
func (c *comparison) hello(h wire.Hello) error {
	if c.first != nil {
		if h.UID != c.first.UID || h.Continuous != c.first.Continuous {
			return errors.New("another hub has answered than the first time")
		}
		return c.same(h.Revision, h.Marker)
	}
	c.first, c.about.At = &h, h.Revision
	return c.greeted(h)
}

// same checks that an answer is of the same log as the first.
func (c *comparison) same(revision int64, marker string) error {
	if marker != c.first.Marker || revision < c.first.Revision {
		return errors.New("the hub has restarted meanwhile")
	}
	c.steady = c.steady && revision == c.first.Revision
	return nil
}

// heardBody calls heard whenever something of an answer arrives.
type heardBody struct {
	io.ReadCloser
	heard func()
}

// Read implements io.Reader.
func (b heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.heard()
	return n, err
}

// frames posts lines and passes the frames of the answer to each. The answer must end
// with a wire mark.
func (h *Client) frames(ctx context.Context, call string, write func(*wire.Encoder) error, heard func(), each func(wire.Frame) error) error {
	answer, err := h.send(ctx, call, write)
	if err != nil {
		return err
	}
	body := heardBody{answer, heard}
	defer body.Close()
	for dec := wire.NewDecoder(body); ; {
		var f wire.Frame
		if err := dec.Decode(&f); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // there was no wire mark
		} else if err != nil {
			return err
		}
		if err := each(f); err != nil || f.Mark != nil {
			return err
		}
	}
}

func encodeAll[T any](enc *wire.Encoder, lines []T) error {
	for i := range lines {
		if err := enc.Encode(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}
