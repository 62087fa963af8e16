package hubclient

import (
	"context"
	"errors"
	"fmt"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// walk compares the content in the store with the hub's and takes over the difference.
// What is new or changed is stored as it arrives. Removals are stored at the end only,
// when the whole comparison and all fetches have been answered.
func (st *stream) walk(ctx context.Context) error {
	m := st.Store.Meta()
	mine, err := st.Store.WantIndex()
	if err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	w := &walker{stream: stream{Session: st.Session, dog: st.dog, in: store.Intake{Walking: true}}}
	w.comparison = comparison{
		hub: st.Client, call: route.Walk, mine: mine, about: wire.Walk{After: m.Revision, Marker: m.Marker}, heard: st.dog.reset,
		greeted: func(h wire.Hello) error {
			if err := w.welcome(ctx, h); err != nil {
				return err
			}
			if w.in.Proven && h.Revision < m.Revision {
				return errors.New("the hub's revision has gone back")
			}
			return nil
		},
	}
	defer w.land(nil, true, true) // what was stored before an error does not differ in the next walk
	if err := w.comparison.run(ctx); err != nil {
		return err
	}
	if err := w.fetch(ctx); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	return w.finish(ctx)
}

// walker is one walk of the desired content.
type walker struct {
	stream
	comparison
}

// fetch asks for what differs, page by page. A key that the hub has no longer is added to
// those that only the agent has.
func (w *walker) fetch(ctx context.Context) error {
	for left := w.theirs; len(left) > 0; {
		page := make([]wire.Fetch, 0, min(len(left), wire.MaxFetch))
		for _, k := range left[:cap(page)] {
			page = append(page, wire.Fetch{Key: k})
		}
		got := 0
		var frames []wire.Frame
		size := 0
		err := w.comparison.hub.frames(ctx, route.Fetch, func(enc *wire.Encoder) error { return encodeAll(enc, page) }, w.heard, func(f wire.Frame) error {
			if f.Mark != nil {
				return w.same(f.Mark.Revision, f.Mark.Marker)
			}
			k, n := subject(f)
			if k == "" {
				return nil // a frame of a newer hub
			}
			if got == len(page) || k != page[got].Key {
				return fmt.Errorf("the answer has %q out of order", k)
			}
			got++
			if f.Del != nil {
				w.ours = append(w.ours, k)
				return nil
			}
			frames, size = append(frames, f), size+n
			if len(frames) < maxBatch && size < maxBatchBytes {
				return nil
			}
			err := w.take(ctx, frames)
			frames, size = nil, 0
			return err
		})
		if err := errors.Join(err, w.take(ctx, frames)); err != nil {
			return err
		}
		if got == 0 {
			return errors.New("the answer has none of the keys that were asked for")
		}
		left = left[got:]
	}
	return nil
}

// subject is the key that a frame is about, and the size of its content in bytes.
func subject(f wire.Frame) (k string, size int) {
	switch {
	case f.Put != nil:
		return f.Put.Key, len(f.Put.Object)
	case f.Hold != nil:
		return f.Hold.Key, len(f.Hold.Error)
	case f.Conflict != nil:
		return f.Conflict.Key, len(f.Conflict.Owner)
	case f.Gone != nil:
		return f.Gone.Key, 0
	case f.Del != nil:
		return f.Del.Key, 0
	}
	return "", 0
}

// finish stores the removals and the revision of the first answer, from which the next
// session resumes: what changed at the hub after that comes once more.
func (w *walker) finish(ctx context.Context) error {
	var frames []wire.Frame
	root := w.Store.Meta().Root
	for _, k := range w.ours {
		frames = append(frames, wire.Frame{Del: &wire.Del{Key: k, Cause: wire.Walked}})
		root = root.Sub(w.mine.Span(k, k+"\x00").Sum)
	}
	if w.in.Proven && w.steady && root != w.first.Root {
		return errors.New("walk: the content would still differ from the hub's")
	}
	return w.take(ctx, append(frames, wire.Frame{Mark: &wire.Mark{
		Revision: w.first.Revision, Root: root, Count: w.first.Count, Marker: w.first.Marker,
	}}))
}
