package protocol

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Holding is what an agent has: the sum of the leaf of each key.
type Holding map[string]wire.Sum

// Root is what it adds up to.
func (h Holding) Root() (root wire.Sum) {
	for _, sum := range h {
		root = root.Add(sum)
	}
	return root
}

// Keys are in order.
func (h Holding) Keys() []string { return slices.Sorted(maps.Keys(h)) }

// Index is what a walk compares.
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

// Subject is the key of what a frame puts into the content, takes out of it or holds, and
// the sum of its leaf, if it then has one; empty: the frame is about no object.
func Subject(f wire.Frame) (k string, leaf wire.Sum, has bool) {
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

// Apply does what a frame says. Of a mark it says whether it is true.
func (h Holding) Apply(f wire.Frame) error {
	k, leaf, has := Subject(f)
	switch {
	case has:
		h[k] = leaf
	case k != "":
		delete(h, k)
	case f.Mark != nil && (f.Mark.Root != h.Root() || f.Mark.Count != len(h)):
		return fmt.Errorf("at revision %d there are %d objects with root %s, the hub says %d with %s", f.Mark.Revision, len(h), h.Root(), f.Mark.Count, f.Mark.Root)
	}
	return nil
}

// Walk makes a holding equal to the hub's by a walk and what it fetches, of which it calls
// fetched with each frame. It returns how many pages that took, and the place in the log
// from which a session goes on.
func (c *Client) Walk(ctx context.Context, have Holding, fetched func(wire.Frame)) (pages int, from wire.Mark, err error) {
	mine, fetch, gone := have.Index(), []any(nil), []string(nil)
	for asked := []wire.Span{mine.Span("", "")}; len(asked) > 0; pages++ {
		n := min(len(asked), wire.MaxSpans)
		frames, err := c.walkPage(ctx, wire.Walk{At: from.Revision}, asked[:n])
		if err != nil {
			return pages, from, err
		}
		asked = asked[n:]
		if hello := frames[0].Hello; pages == 0 {
			from = wire.Mark{Revision: hello.Revision, Marker: hello.Marker, Root: hello.Root, Count: hello.Count}
		}
		for _, f := range frames {
			if f.Part == nil {
				continue
			}
			d := mine.Compare(*f.Part)
			asked, gone = append(asked, d.Ask...), append(gone, d.Mine...)
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
		for _, f := range frames[:len(frames)-1] { // its mark has no root
			_ = have.Apply(f) // nor is any of the others one
			fetched(f)
		}
		fetch = fetch[len(frames)-1:]
	}
	for _, k := range gone {
		delete(have, k)
	}
	return pages, from, nil
}

func (c *Client) walkPage(ctx context.Context, walk wire.Walk, asked []wire.Span) ([]wire.Frame, error) {
	lines := []any{walk}
	for _, s := range asked {
		lines = append(lines, s)
	}
	frames, err := c.Exchange(ctx, route.Walk, lines...)
	if err == nil && frames[0].Hello == nil {
		err = fmt.Errorf("the answer to a walk begins with %+v", frames[0])
	}
	return frames, err
}
