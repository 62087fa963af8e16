package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// scanPage is how many entries are read in one transaction, and scanBytes of how many bytes, the last
// of them besides: a long one keeps bbolt from reusing pages, and what is decoded of all is in memory at
// once.
const (
	scanPage  = 1000
	scanBytes = 1 << 20
)

// index makes the index of a bucket.
func (s *Store) index(bucket []byte, sum func(k string, v []byte) (wire.Sum, error)) (*wire.Index, error) {
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

// kept is what a bucket has of a key, as it is stored. v is valid until the transaction ends.
type kept struct {
	k string
	v []byte
}

// each calls f with what decode makes of each entry of a bucket, in the order of keys. It takes several
// transactions, so it may miss changes in between. Since most of a start is decrypting and decoding, all
// processors share that of a page. What decode gets is valid during its call only.
func each[T any](s *Store, bucket []byte, decode func(k string, v []byte) (T, error), f func(*T) error) error {
	return s.pages(bucket, func(t *Tx, page []kept) error {
		decoded := make([]T, len(page))
		var group errgroup.Group
		share := (len(page) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
		for from := 0; from < len(page); from += share {
			group.Go(func() error {
				return guarded(func() (err error) { // a guard is of one goroutine
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

// scan calls f with each entry of a bucket, as each does, one after the other. v is valid during the
// call only.
func (s *Store) scan(bucket []byte, f func(t *Tx, k string, v []byte) error) error {
	return s.pages(bucket, func(t *Tx, page []kept) error {
		for _, e := range page {
			if err := f(t, e.k, t.open(bucket, e.k, e.v)); err != nil {
				return err
			}
		}
		return nil
	})
}

// pages calls f with the entries of a bucket, as many as one transaction reads.
func (s *Store) pages(bucket []byte, f func(t *Tx, page []kept) error) error {
	page, after := make([]kept, 0, scanPage), ""
	for more := true; more; {
		if err := s.View(func(t *Tx) error {
			c := t.bucket(bucket).Cursor()
			k, v := c.Seek([]byte(after))
			if k != nil && string(k) == after {
				k, v = c.Next()
			}
			size := 0
			for page = page[:0]; k != nil && len(page) < scanPage && size < scanBytes; k, v = c.Next() {
				page = append(page, kept{string(k), v})
				size += len(v)
			}
			if more = k != nil; len(page) > 0 {
				after = page[len(page)-1].k
			}
			return f(t, page)
		}); err != nil {
			return err
		}
	}
	return nil
}

// WantIndex is the index of the desired content.
func (s *Store) WantIndex() (*wire.Index, error) {
	return s.index(desiredBucket, func(k string, v []byte) (wire.Sum, error) {
		w, _, err := decodeWant(v)
		return w.Sum(k), err
	})
}

// ReportIndex is the index of the reports.
func (s *Store) ReportIndex() (*wire.Index, error) {
	// A report is stored as the bytes that its sum is computed from.
	return s.index(reportBucket, func(_ string, v []byte) (wire.Sum, error) { return wire.SumOf(v), nil })
}

// of is what an entry says, and of what.
type of[K, V any] struct {
	key   K
	value V
}

// EachWant calls f with each entry of the desired content.
func (s *Store) EachWant(f func(key.Object, *Want) error) error {
	return each(s, desiredBucket, func(k string, v []byte) (x of[key.Object, Want], err error) {
		if x.value, _, err = decodeWant(v); err == nil {
			x.key, err = key.ParsePath(k)
		}
		return x, err
	}, func(x *of[key.Object, Want]) error { return f(x.key, &x.value) })
}

// EachRecord calls f with each record.
func (s *Store) EachRecord(f func(key.Identity, *Record) error) error {
	return each(s, recordBucket, func(k string, v []byte) (x of[key.Identity, Record], err error) {
		if err = json.Unmarshal(v, &x.value); err == nil {
			x.key, err = key.ParseIdentity(k)
		}
		return x, err
	}, func(x *of[key.Identity, Record]) error { return f(x.key, &x.value) })
}

// EachReport calls f with the newest report of each placed object.
func (s *Store) EachReport(f func(key.Object, *wire.Report) error) error {
	return each(s, reportBucket, func(k string, v []byte) (x of[key.Object, *wire.Report], err error) {
		if !IsPlaced(k) {
			return x, nil
		}
		x.value = &wire.Report{}
		if err = json.Unmarshal(v, x.value); err == nil {
			x.key, err = key.ParsePath(k)
		}
		return x, err
	}, func(x *of[key.Object, *wire.Report]) error {
		if x.value == nil { // it is not of a placed one
			return nil
		}
		return f(x.key, x.value)
	})
}

// EachSeen calls f with the line and the size of each report of another origin than Placed,
// and whose it is.
func (s *Store) EachSeen(f func(line string, r key.Report, size int) error) error {
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

// IsPlaced says that a line is that of a report of a placed object.
func IsPlaced(line string) bool {
	return !strings.HasPrefix(line, key.LinePrefix(key.Born)) && !strings.HasPrefix(line, key.LinePrefix(key.Owned))
}

// OnlyReported returns the placed objects that have a report, but no desired entry: those that
// leave, those of which a report has come back from the hub that was removed here, also where a
// record of theirs is left until that of another space takes its place.
func (s *Store) OnlyReported() (left []Touched, err error) {
	err = s.scan(reportBucket, func(t *Tx, k string, _ []byte) error {
		if !IsPlaced(k) {
			return nil
		}
		o, err := key.ParsePath(k)
		if err != nil {
			return err
		}
		if !t.HasWant(k) {
			left = append(left, touched(t.place(o), nil))
		}
		return nil
	})
	return left, err
}

// Unsent is a line that the hub does not have yet, with its sequence number: an
// acknowledgement counts only if the key still has that number.
type Unsent struct {
	Line wire.ReportLine
	seq  []byte
}

// Unsent returns some of the lines that the hub does not have yet, those of placed objects
// first: at most so many, and of about bytesMost bytes; the last may go beyond. more says that
// there are more.
func (s *Store) Unsent(most, bytesMost int) (batch []Unsent, more bool, err error) {
	err = s.View(func(t *Tx) error {
		c := t.bucket(unsentBucket).Cursor()
		size := 0
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if len(batch) == most || size >= bytesMost {
				more = true
				return nil
			}
			report, err := t.Report(string(k))
			if err != nil {
				return err
			}
			if report != nil {
				size += len(report.Status) + len(report.Object) + len(report.Message)
			}
			batch = append(batch, Unsent{
				Line: wire.ReportLine{Key: string(k), Report: report, Removed: report == nil}, seq: bytes.Clone(t.open(unsentBucket, string(k), v)),
			})
		}
		return nil
	})
	return batch, more, err
}
