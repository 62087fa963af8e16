package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// scanPage is the maximum number of entries that one transaction reads, and scanBytes the size after which
// it reads no further entry. A long transaction prevents bbolt from reusing pages, and all decoded entries
// of a page are in memory at the same time.
const (
	scanPage  = 1000
	scanBytes = 1 << 20
)

// scanner reads whole buckets, page by page. Each page is a transaction of its own, so a scan may miss
// changes between them.
type scanner struct{ *database }

// storedEntry is a key with its stored value, which is valid until the transaction ends.
type storedEntry struct {
	k string
	v []byte
}

// pages calls f with the entries of a bucket, page by page.
func (s scanner) pages(bucket []byte, f func(t *Tx, page []storedEntry) error) error {
	page, last := make([]storedEntry, 0, scanPage), ""
	for more := true; more; {
		if err := s.View(func(t *Tx) error {
			c := t.bucket(bucket).Cursor()
			k, v := c.Seek([]byte(last))
			if k != nil && string(k) == last {
				k, v = c.Next()
			}
			size := 0
			for page = page[:0]; k != nil && len(page) < scanPage && size < scanBytes; k, v = c.Next() {
				page = append(page, storedEntry{string(k), v})
				size += len(v)
			}
			if more = k != nil; len(page) > 0 {
				last = page[len(page)-1].k
			}
			return f(t, page)
		}); err != nil {
			return err
		}
	}
	return nil
}

// scan calls f with each entry of a bucket, in the order of keys. v is valid during the call only.
func (s scanner) scan(bucket []byte, f func(t *Tx, k string, v []byte) error) error {
	return s.pages(bucket, func(t *Tx, page []storedEntry) error {
		for _, e := range page {
			if err := f(t, e.k, t.open(bucket, e.k, e.v)); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls f with the decoded form of each entry of a bucket, in the order of keys. Decrypting and
// decoding take most of the time of a start, so all processors decode a page together. The argument of
// decode is valid during the call only.
func each[T any](s scanner, bucket []byte, decode func(k string, v []byte) (T, error), f func(*T) error) error {
	return s.pages(bucket, func(t *Tx, page []storedEntry) error {
		decoded := make([]T, len(page))
		var group errgroup.Group
		share := (len(page) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
		for from := 0; from < len(page); from += share {
			group.Go(func() error {
				return guarded(func() (err error) { // guarded applies to one goroutine
					for i, e := range page[from:min(from+share, len(page))] {
						if decoded[from+i], err = decode(e.k, t.open(bucket, e.k, e.v)); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for i := range decoded {
			if err := f(&decoded[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// index returns the comparison index of a bucket. sum returns the hash of an entry.
func (s scanner) index(bucket []byte, sum func(k string, v []byte) (wire.Sum, error)) (*wire.Index, error) {
	var leaves []wire.Leaf
	if err := each(s, bucket, func(k string, v []byte) (wire.Leaf, error) {
		x, err := sum(k, v)
		if err != nil {
			return wire.Leaf{}, fmt.Errorf("read %s of %q: %w", bucket, k, err)
		}
		return wire.Leaf{Key: k, Sum: x}, nil
	}, func(l *wire.Leaf) error {
		leaves = append(leaves, *l)
		return nil
	}); err != nil {
		return nil, err
	}
	return wire.NewIndex(leaves)
}

// WantIndex returns the comparison index of the desired entries.
func (s scanner) WantIndex() (*wire.Index, error) {
	return s.index(desiredBucket, func(k string, v []byte) (wire.Sum, error) {
		w, _, err := decodeWant(v)
		return w.Sum(k), err
	})
}

// ReportIndex returns the comparison index of the reports, with their fields Aggregated and Diagnosis or, for a hub
// that drops these, without them.
func (s scanner) ReportIndex(withAll bool) (*wire.Index, error) {
	return s.index(reportBucket, func(_ string, v []byte) (wire.Sum, error) {
		if withAll || !bytes.Contains(v, []byte(`"aggregated":true`)) && !bytes.Contains(v, []byte(`"diagnosis":`)) {
			return wire.SumOf(v), nil // the stored form of a report is also the input of its hash
		}
		var report wire.Report
		err := json.Unmarshal(v, &report)
		report.Aggregated, report.Diagnosis = false, ""
		return report.Sum(), err
	})
}

// decodedEntry is a decoded entry of a bucket.
type decodedEntry[K, V any] struct {
	key   K
	value V
}

// EachWant calls f with each desired entry.
func (s scanner) EachWant(f func(key.Object, *Want) error) error {
	return each(s, desiredBucket, func(k string, v []byte) (x decodedEntry[key.Object, Want], err error) {
		if x.value, _, err = decodeWant(v); err == nil {
			x.key, err = key.ParsePath(k)
		}
		return x, err
	}, func(x *decodedEntry[key.Object, Want]) error { return f(x.key, &x.value) })
}

// EachRecord calls f with each record.
func (s scanner) EachRecord(f func(key.Identity, *Record) error) error {
	return each(s, recordBucket, func(k string, v []byte) (x decodedEntry[key.Identity, Record], err error) {
		if err = json.Unmarshal(v, &x.value); err == nil {
			x.key, err = key.ParseIdentity(k)
		}
		return x, err
	}, func(x *decodedEntry[key.Identity, Record]) error { return f(x.key, &x.value) })
}

// EachReport calls f with the newest report of each placed object.
func (s scanner) EachReport(f func(key.Object, *wire.Report) error) error {
	return each(s, reportBucket, func(k string, v []byte) (x decodedEntry[key.Object, *wire.Report], err error) {
		if !IsPlaced(k) {
			return x, nil
		}
		x.value = &wire.Report{}
		if err = json.Unmarshal(v, x.value); err == nil {
			x.key, err = key.ParsePath(k)
		}
		return x, err
	}, func(x *decodedEntry[key.Object, *wire.Report]) error {
		if x.value == nil { // the object is not placed
			return nil
		}
		return f(x.key, x.value)
	})
}

// EachSeen calls f with each report of an object that is not placed: its line, the parsed line, and the
// size of the report.
func (s scanner) EachSeen(f func(line string, r key.Report, size int) error) error {
	return s.scan(reportBucket, func(_ *Tx, k string, v []byte) error {
		if IsPlaced(k) {
			return nil
		}
		r, err := key.ParseLine("", k)
		if err != nil {
			return err
		}
		return f(k, r, len(v))
	})
}

// OnlyReported returns the placed objects that have a report but no desired entry. These are removals in
// progress, and objects whose report the hub returned after it was removed here. An object stays in the
// result also if the record of its identity is of another space.
func (s scanner) OnlyReported() (objects []Touched, err error) {
	err = s.scan(reportBucket, func(t *Tx, k string, _ []byte) error {
		if !IsPlaced(k) {
			return nil
		}
		o, err := key.ParsePath(k)
		if err != nil {
			return err
		}
		if !t.Desired.Contains(k) {
			objects = append(objects, newTouched(t.meta.Placing.Locate(o), nil))
		}
		return nil
	})
	return objects, err
}

// Unsent returns lines that the hub has not acknowledged: at most count lines, and about size bytes, which
// the last line may exceed. Lines of placed objects come first. more is true if there are more lines.
func (s scanner) Unsent(count, size int) (batch []Unsent, more bool, err error) {
	err = s.View(func(t *Tx) error {
		batch, more, err = t.Reports.unsent(count, size)
		return err
	})
	return batch, more, err
}

// EachRoot calls f with each Root.
func (s scanner) EachRoot(f func(Root) error) error {
	ids, err := s.rootCandidates()
	if err != nil {
		return err
	}
	for text := range ids {
		id, err := key.ParseIdentity(text)
		if err != nil {
			return err
		}
		var r Root
		var ok bool
		if err := s.View(func(t *Tx) (err error) {
			r, ok, err = t.Root(id)
			return err
		}); err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// rootCandidates returns the identities of all objects with associated kinds in their desired entry or in
// their record.
func (s scanner) rootCandidates() (map[string]struct{}, error) {
	ids := map[string]struct{}{}
	field := []byte(`"associated":`)
	hasField := func(v []byte) bool {
		head, _, _ := bytes.Cut(v, []byte("\n")) // without the object of a desired entry
		return bytes.Contains(head, field)
	}
	return ids, errors.Join(
		s.scan(desiredBucket, func(t *Tx, k string, v []byte) error {
			if !hasField(v) {
				return nil
			}
			o, err := key.ParsePath(k)
			ids[t.meta.Placing.Locate(o).Identity.String()] = struct{}{}
			return err
		}),
		s.scan(recordBucket, func(_ *Tx, k string, v []byte) error {
			if hasField(v) {
				ids[k] = struct{}{}
			}
			return nil
		}),
	)
}
