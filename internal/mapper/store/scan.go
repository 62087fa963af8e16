package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// scanPage is how many entries are read in one transaction: a long one keeps bbolt from
// reusing pages.
const scanPage = 1000

// index makes the index of a bucket.
func (s *Store) index(bucket []byte, sum func(k string, v []byte) (wire.Sum, error)) (*wire.Index, error) {
	var leaves []wire.Leaf
	if err := s.scan(bucket, func(_ *Tx, k string, v []byte) error {
		x, err := sum(k, v)
		if err != nil {
			return fmt.Errorf("read %s of %q: %w", bucket, k, err)
		}
		leaves = append(leaves, wire.Leaf{Key: k, Sum: x})
		return nil
	}); err != nil {
		return nil, err
	}
	return wire.NewIndex(leaves)
}

// scan calls f with each entry of a bucket, in several transactions, so it may miss
// changes in between. v is valid during the call only.
func (s *Store) scan(bucket []byte, f func(t *Tx, k string, v []byte) error) error {
	var after []byte
	for more := true; more; {
		if err := s.View(func(t *Tx) error {
			c := t.bucket(bucket).Cursor()
			k, v := c.Seek(after)
			if k != nil && bytes.Equal(k, after) {
				k, v = c.Next()
			}
			for n := 0; k != nil && n < scanPage; n++ {
				if err := f(t, string(k), t.open(bucket, string(k), v)); err != nil {
					return err
				}
				after = bytes.Clone(k)
				k, v = c.Next()
			}
			more = k != nil
			return nil
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

// EachWant calls f with each entry of the desired content.
func (s *Store) EachWant(f func(key.Object, *Want) error) error {
	return s.scan(desiredBucket, func(_ *Tx, k string, v []byte) error {
		w, _, err := decodeWant(v)
		if err != nil {
			return err
		}
		o, err := key.ParsePath(k)
		if err != nil {
			return err
		}
		return f(o, &w)
	})
}

// EachRecord calls f with each record.
func (s *Store) EachRecord(f func(key.Identity, *Record) error) error {
	return s.scan(recordBucket, func(_ *Tx, k string, v []byte) error {
		var r Record
		if err := json.Unmarshal(v, &r); err != nil {
			return err
		}
		id, err := key.ParseIdentity(k)
		if err != nil {
			return err
		}
		return f(id, &r)
	})
}

// EachReport calls f with the newest report of each placed object.
func (s *Store) EachReport(f func(key.Object, *wire.Report) error) error {
	return s.scan(reportBucket, func(_ *Tx, k string, v []byte) error {
		if !IsPlaced(k) {
			return nil
		}
		var r wire.Report
		if err := json.Unmarshal(v, &r); err != nil {
			return err
		}
		o, err := key.ParsePath(k)
		if err != nil {
			return err
		}
		return f(o, &r)
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
