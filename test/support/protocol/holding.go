package protocol

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Holding is the content of an agent: the hash of the leaf of each key.
type Holding map[string]wire.Sum

// Root returns the content hash.
func (h Holding) Root() (root wire.Sum) {
	for _, sum := range h {
		root = root.Add(sum)
	}
	return root
}

// Keys returns the keys in order.
func (h Holding) Keys() []string { return slices.Sorted(maps.Keys(h)) }

// Index returns the index for a comparison.
func (h Holding) Index() *wire.Index {
	leaves := make([]wire.Leaf, 0, len(h))
	for _, k := range h.Keys() {
		leaves = append(leaves, wire.Leaf{Key: k, Sum: h[k]})
	}
	index, err := wire.NewIndex(leaves)
	if err != nil { // they are in order
		panic(err)
	}
	return index
}

// Subject returns the key of the object of a frame, or an empty string if the frame has none, and the
// hash of the object's leaf. exists is false if the frame removes the object from the content.
func Subject(f wire.Frame) (k string, leaf wire.Sum, exists bool) {
	switch {
	case f.Put != nil:
		return f.Put.Key, wire.LeafSum(f.Put.Key, f.Put.UID, f.Put.Digest, f.Put.Policy), true
	case f.Hold != nil:
		return f.Hold.Key, wire.LeafSum(f.Hold.Key, f.Hold.UID, f.Hold.Digest, wire.Policy{}), true
	case f.Conflict != nil:
		return f.Conflict.Key, wire.LeafSum(f.Conflict.Key, f.Conflict.UID, f.Conflict.Digest, wire.Policy{}), true
	case f.Gone != nil:
		return f.Gone.Key, wire.LeafSum(f.Gone.Key, f.Gone.UID, f.Gone.Digest, wire.Policy{}), true
	case f.Del != nil:
		return f.Del.Key, leaf, false
	}
	return "", leaf, false
}

// Apply applies a frame. It returns an error if a mark does not match the content.
func (h Holding) Apply(f wire.Frame) error {
	k, leaf, exists := Subject(f)
	switch {
	case exists:
		h[k] = leaf
	case k != "":
		delete(h, k)
	case f.Mark != nil && (f.Mark.Root != h.Root() || f.Mark.Count != len(h)):
		return fmt.Errorf("at revision %d there are %d objects with root %s, but in the mark %d with %s", f.Mark.Revision, len(h), h.Root(), f.Mark.Count, f.Mark.Root)
	}
	return nil
}

// Walk makes a holding equal to the hub's content by a comparison and by fetches. It calls fetched with
// each fetched frame. It returns the number of pages of the comparison, and the log position from which
// a session can resume.
func (c *Client) Walk(ctx context.Context, have Holding, fetched func(wire.Frame)) (pages int, from wire.Mark, err error) {
	mine, fetch, gone := have.Index(), []any(nil), []string(nil)
	for spans := []wire.Span{mine.Span("", "")}; len(spans) > 0; pages++ {
		n := min(len(spans), wire.MaxSpans)
		frames, err := c.walkPage(ctx, wire.Walk{Revision: from.Revision}, spans[:n])
		if err != nil {
			return pages, from, err
		}
		spans = spans[n:]
		if hello := frames[0].Hello; pages == 0 {
			from = wire.Mark{Revision: hello.Revision, Marker: hello.Marker, Root: hello.Root, Count: hello.Count}
		}
		for _, f := range frames {
			if f.RangeDifference == nil {
				continue
			}
			d := mine.Compare(*f.RangeDifference)
			spans, gone = append(spans, d.Next...), append(gone, d.Mine...)
			for _, k := range d.Theirs {
				fetch = append(fetch, wire.Fetch{Key: k})
			}
		}
	}
	for len(fetch) > 0 {
		frames, err := c.Exchange(ctx, route.Fetch, fetch[:min(len(fetch), wire.MaxFetch)]...)
		if err != nil {
			return pages, from, err
		}
		if len(frames) < 2 {
			return pages, from, fmt.Errorf("a fetch of %d keys was answered with none", len(fetch))
		}
		for _, f := range frames[:len(frames)-1] { // the mark of a fetch has no root
			_ = have.Apply(f) // returns errors only for marks
			fetched(f)
		}
		fetch = fetch[len(frames)-1:]
	}
	for _, k := range gone {
		delete(have, k)
	}
	return pages, from, nil
}

func (c *Client) walkPage(ctx context.Context, walk wire.Walk, spans []wire.Span) ([]wire.Frame, error) {
	lines := []any{walk}
	for _, s := range spans {
		lines = append(lines, s)
	}
	frames, err := c.Exchange(ctx, route.Walk, lines...)
	if err == nil && frames[0].Hello == nil {
		err = fmt.Errorf("the response to a comparison begins with %+v", frames[0])
	}
	return frames, err
}
