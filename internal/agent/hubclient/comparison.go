package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orrery.dev/orrery/internal/protocol/wire"
)

// comparison determines, in pages of bounded size, the keys that differ between agent and hub.
type comparison struct {
	hub  *Client
	call string // route.Walk or route.ReportsWalk
	mine *wire.Index
	// query is the first line of each request.
	query wire.Walk
	// onData is called whenever data arrives, even an empty line.
	onData func()
	// greeted is called with the first hello; its error ends the comparison.
	greeted func(wire.Hello) error

	// first is the first hello; steady reports whether all responses had its revision.
	first  *wire.Hello
	steady bool
	// theirs are the keys whose leaf at the hub differs from the agent's, or that the agent
	// lacks; ours are the keys that only the agent has.
	theirs, ours []string
}

// run compares until all differences are known. After an error the results are not valid.
func (c *comparison) run(ctx context.Context) error {
	c.steady = true
	for ranges := []wire.Span{c.mine.Span("", "")}; len(ranges) > 0; {
		n := min(len(ranges), wire.MaxSpans)
		more, err := c.page(ctx, ranges[:n])
		if err != nil {
			return fmt.Errorf("%s: %w", c.call, err)
		}
		ranges = append(ranges[n:], more...)
	}
	return nil
}

// page compares some ranges and returns the ranges to compare next.
func (c *comparison) page(ctx context.Context, ranges []wire.Span) (more []wire.Span, err error) {
	requested := make(map[[2]string]bool, len(ranges))
	for _, s := range ranges {
		requested[[2]string{s.From, s.To}] = true
	}
	lines := func(enc *wire.Encoder) error {
		if err := enc.Encode(c.query); err != nil {
			return err
		}
		return encodeAll(enc, ranges)
	}
	err = c.hub.frames(ctx, c.call, lines, c.onData, func(f wire.Frame) error {
		switch {
		case f.Hello != nil:
			return c.hello(*f.Hello)
		case c.first == nil:
			return errors.New("the first frame is not a hello")
		case f.Mark != nil:
			return c.same(f.Mark.Revision, f.Mark.Marker)
		case f.RangeDifference == nil:
			return nil
		}
		span := [2]string{f.RangeDifference.From, f.RangeDifference.To}
		if !requested[span] {
			return fmt.Errorf("the answer has keys from %q to %q, which were not requested", f.RangeDifference.From, f.RangeDifference.To)
		}
		delete(requested, span)
		d := c.mine.Compare(*f.RangeDifference)
		more = append(more, d.Next...)
		c.theirs, c.ours = append(c.theirs, d.Theirs...), append(c.ours, d.Mine...)
		return nil
	})
	return more, err
}

// hello records the first hello, and compares later ones with it.
func (c *comparison) hello(h wire.Hello) error {
	if c.first != nil {
		if h.UID != c.first.UID || h.Continuous != c.first.Continuous {
			return errors.New("the response is from another hub than the first one")
		}
		return c.same(h.Revision, h.Marker)
	}
	c.first, c.query.Revision = &h, h.Revision
	return c.greeted(h)
}

// same checks that a response is from the same log as the first one.
func (c *comparison) same(revision int64, marker string) error {
	if marker != c.first.Marker || revision < c.first.Revision {
		return errors.New("the hub has restarted during the comparison")
	}
	c.steady = c.steady && revision == c.first.Revision
	return nil
}

// notifyingBody calls onData whenever data of a response arrives.
type notifyingBody struct {
	io.ReadCloser
	onData func()
}

// Read implements io.Reader.
func (b notifyingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.onData()
	return n, err
}

// frames posts lines and passes the frames of the response to each. The response must end
// with a bookmark.
func (h *Client) frames(ctx context.Context, call string, write func(*wire.Encoder) error, onData func(), each func(wire.Frame) error) error {
	answer, err := h.send(ctx, call, write)
	if err != nil {
		return err
	}
	body := notifyingBody{answer, onData}
	defer body.Close()
	for dec := wire.NewDecoder(body); ; {
		var f wire.Frame
		if err := dec.Decode(&f); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // there was no bookmark
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
