package mapper

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/wire"
)

// leafPage is how many entries are read from the store at once, so that no read
// keeps old pages from being reused for long.
const leafPage = 1000

// walk compares all of our content with the hub's and takes over the difference.
func (st *stream) walk(ctx context.Context) error {
	m := st.store.meta.Load()
	body, err := st.hub.send(ctx, "walk", func(enc *wire.Encoder) error {
		if err := enc.Encode(wire.Walk{After: m.Revision, Marker: m.Marker}); err != nil {
			return err
		}
		return st.store.leaves(desiredBucket, enc, func(k string, v []byte) (wire.Sum, error) {
			w, _, err := decodeWant(v)
			return w.sum(k), err
		})
	})
	if err != nil {
		return err
	}
	defer body.Close()
	w := &stream{session: st.session, dec: wire.NewDecoder(body), dog: st.dog, in: intake{walking: true}}
	if err := w.greet(ctx); err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	for !w.in.marked {
		if err := w.batch(ctx); err != nil {
			return fmt.Errorf("walk: %w", err)
		}
	}
	switch {
	case !w.in.proven:
		return nil
	case !w.in.forward:
		return errors.New("walk: the hub's revision is before the last one")
	case !w.in.agrees:
		return errors.New("walk: our content is not the hub's after it either")
	}
	return nil
}

// leaves writes one leaf per entry of a bucket, in key order.
func (s *store) leaves(bucket []byte, enc *wire.Encoder, sum func(string, []byte) (wire.Sum, error)) error {
	return s.pages(bucket, func(page []entry) error {
		for _, e := range page {
			x, err := sum(e.key, e.value)
			if err != nil {
				return fmt.Errorf("read %s of %q: %w", bucket, e.key, err)
			}
			if err := enc.Encode(wire.Leaf{Key: e.key, Sum: x}); err != nil {
				return err
			}
		}
		return nil
	})
}

// entry is one key and value of a bucket.
type entry struct {
	key   string
	value []byte
}

// pages reads a bucket page by page; what changes in between may be missed. The
// values are copies.
func (s *store) pages(bucket []byte, f func([]entry) error) error {
	var after []byte
	for {
		var page []entry
		if err := s.db.View(func(b *bolt.Tx) error {
			c := b.Bucket(bucket).Cursor()
			k, v := c.Seek(after)
			if k != nil && bytes.Equal(k, after) {
				k, v = c.Next()
			}
			size := 0
			for ; k != nil && len(page) < leafPage && size < maxBatchBytes; k, v = c.Next() {
				page = append(page, entry{string(k), bytes.Clone(v)})
				size += len(v)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		after = []byte(page[len(page)-1].key)
		if err := f(page); err != nil {
			return err
		}
	}
}
