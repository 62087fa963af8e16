package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Reports has the newest report of each line, and the lines whose report, or its absence, the hub has
// not acknowledged. The line of a placed object is the path of its source object.
type Reports struct{ values }

// Unsent is a line of a request that the hub has not acknowledged. An acknowledgement counts only if
// the line still has the same sequence number.
type Unsent struct {
	Line     wire.ReportLine
	sequence []byte
}

// IsPlaced reports whether a line is that of a placed object.
func IsPlaced(line string) bool {
	return !strings.HasPrefix(line, key.LinePrefix(key.Upsynced)) && !strings.HasPrefix(line, key.LinePrefix(key.Owned))
}

// Get returns the newest report of a line; nil if there is none.
func (r Reports) Get(line string) (*wire.Report, error) {
	var report wire.Report
	ok, err := r.getJSON(reportBucket, line, &report)
	if !ok {
		return nil, err
	}
	return &report, nil
}

// Contains reports whether a line has a report.
func (r Reports) Contains(line string) bool { return r.exists(reportBucket, line) }

// Set replaces the report of a line, or removes it if report is nil, and marks the line unsent.
func (r Reports) Set(line string, report *wire.Report) error {
	if report != nil && report.Completed != "" {
		r.meta.countMove()
	}
	if report == nil {
		if !r.Contains(line) {
			return nil
		}
		if err := r.remove(reportBucket, line); err != nil {
			return err
		}
	} else if err := r.putJSON(reportBucket, line, report); err != nil {
		return err
	}
	return r.MarkUnsent(line)
}

// Update replaces the report of a line and marks the line unsent. It does nothing if the report is
// the same.
func (r Reports) Update(line string, report *wire.Report) error {
	b, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if now, ok := r.get(reportBucket, line); ok && bytes.Equal(now, b) {
		return nil
	}
	if err := r.put(reportBucket, line, b); err != nil {
		return err
	}
	return r.MarkUnsent(line)
}

// restore stores the report that the hub has of a line, unless the line has a report.
func (r Reports) restore(line string, report *wire.Report) error {
	if r.Contains(line) {
		return nil
	}
	return r.putJSON(reportBucket, line, report)
}

// delete removes the report of a line, and does not mark the line unsent.
func (r Reports) delete(line string) error { return r.remove(reportBucket, line) }

// IsUnsent reports whether a line is marked unsent.
func (r Reports) IsUnsent(line string) bool { return r.exists(unsentBucket, line) }

// MarkUnsent records that the report of a line, or its absence, has to be sent to the hub.
func (r Reports) MarkUnsent(line string) error {
	if !r.IsUnsent(line) {
		r.meta.Unsent++
	}
	sequence, err := r.bucket(unsentBucket).NextSequence()
	if err != nil {
		return err
	}
	return r.put(unsentBucket, line, binary.BigEndian.AppendUint64(nil, sequence))
}

// ClearUnsent records that a line is not to be sent again. It returns false if the line has been
// marked unsent again since u was read.
func (r Reports) ClearUnsent(u Unsent) (bool, error) {
	line := u.Line.Key
	if now, ok := r.get(unsentBucket, line); !ok || !bytes.Equal(now, u.sequence) {
		return false, nil
	}
	r.meta.Unsent--
	return true, r.remove(unsentBucket, line)
}

// IsAcknowledged reports whether the hub has the report of a line, and the agent has not removed the
// report since.
func (r Reports) IsAcknowledged(line string) bool { return r.Contains(line) && !r.IsUnsent(line) }

// sendAgain marks the report of a line unsent, if there is one: the hub may have refused it while the
// object was not desired.
func (r Reports) sendAgain(line string) error {
	if !r.Contains(line) {
		return nil
	}
	return r.MarkUnsent(line)
}

// unsent returns lines that the hub has not acknowledged: at most count lines, and about size bytes,
// which the last line may exceed. Lines of placed objects come first. more is true if there are more
// lines.
func (r Reports) unsent(count, size int) (batch []Unsent, more bool, err error) {
	c := r.bucket(unsentBucket).Cursor()
	read := 0
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if len(batch) == count || read >= size {
			return batch, true, nil
		}
		report, err := r.Get(string(k))
		if err != nil {
			return batch, false, err
		}
		if report != nil {
			read += len(report.Status) + len(report.Object) + len(report.Message)
		}
		batch = append(batch, Unsent{
			Line:     wire.ReportLine{Key: string(k), Report: report, Removed: report == nil},
			sequence: bytes.Clone(r.open(unsentBucket, string(k), v)),
		})
	}
	return batch, false, nil
}

// forgetCompletion marks the placed objects that ran to completion as not completed, and returns
// their number.
func (r Reports) forgetCompletion() (ended int, err error) {
	again := map[string]*wire.Report{}
	cursor := r.bucket(reportBucket).Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		text := r.open(reportBucket, string(k), v)
		if !IsPlaced(string(k)) || gjson.GetBytes(text, "completed").Str == "" {
			continue
		}
		report := &wire.Report{}
		if err := json.Unmarshal(text, report); err != nil {
			return 0, fmt.Errorf("decode the report of %q: %w", k, err)
		}
		report.Completed = ""
		again[string(k)] = report
	}
	for k, report := range again {
		err = errors.Join(err, r.Set(k, report))
	}
	return len(again), err
}
