package hubclient

import (
	"context"
	"errors"
	"fmt"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// walk compares the content of the store with the hub's and stores the difference.
// New and changed objects are stored as they arrive. Removals are stored only at the end,
// after the whole comparison and all fetches.
func (st *stream) walk(ctx context.Context) error {
	m := st.Store.Meta()
	mine, err := st.Store.WantIndex()
	if err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	w := &walker{stream: stream{Session: st.Session, dog: st.dog, in: store.Intake{Walking: true}}}
	w.comparison = comparison{
		hub: st.Client, call: route.Walk, mine: mine, query: wire.Walk{After: m.Revision, Marker: m.Marker}, onData: st.dog.reset,
		greeted: func(h wire.Hello) error {
			if err := w.welcome(ctx, h); err != nil {
				return err
			}
			if w.in.Proven && h.Revision < m.Revision {
				return errors.New("the hub's revision has decreased")
			}
			return nil
		},
	}
	defer w.land(nil, true, true) // the next walk does not find objects that were stored before an error
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

// fetch requests the objects that differ, page by page. A key that the hub no longer has is
// added to those that only the agent has.
func (w *walker) fetch(ctx context.Context) error {
	for left := w.theirs; len(left) > 0; {
		page := make([]wire.Fetch, 0, min(len(left), wire.MaxFetch))
		for _, k := range left[:cap(page)] {
			page = append(page, wire.Fetch{Key: k})
		}
		got := 0
		var frames []wire.Frame
		size := 0
		err := w.comparison.hub.frames(ctx, route.Fetch, func(enc *wire.Encoder) error { return encodeAll(enc, page) }, w.onData, func(f wire.Frame) error {
			if f.Mark != nil {
				return w.same(f.Mark.Revision, f.Mark.Marker)
			}
			k, n := subject(f)
			if k == "" {
				return nil // a frame of a newer version
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
			return errors.New("the answer has none of the requested keys")
		}
		left = left[got:]
	}
	return nil
}

// subject returns the key of a frame, and the size of its content in bytes.
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

// finish stores the removals and the revision of the first response, from which the next
// session resumes: later changes at the hub are sent once more.
func (w *walker) finish(ctx context.Context) error {
	var frames []wire.Frame
	root := w.Store.Meta().Root
	for _, k := range w.ours {
		frames = append(frames, wire.Frame{Del: &wire.Del{Key: k, Cause: wire.Walked}})
		root = root.Sub(w.mine.Span(k, k+"\x00").Sum)
	}
	if w.in.Proven && w.steady && root != w.first.Root {
		return errors.New("compare desired objects: the content of the store would still differ from the hub's")
	}
	return w.take(ctx, append(frames, wire.Frame{Mark: &wire.Mark{
		Revision: w.first.Revision, Root: root, Count: w.first.Count, Marker: w.first.Marker,
	}}))
}
