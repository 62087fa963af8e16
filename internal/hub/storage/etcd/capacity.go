package etcd

import (
	"context"
	"sync"
	"time"
)

// durations has the number of operations and their total duration.
type durations struct {
	mu    sync.Mutex
	count int
	took  time.Duration
}

func (d *durations) add(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	d.took += took
}

// Usage is the usage of the log's quota, and the work that was done to stay within it.
type Usage struct {
	Size
	// History is the approximate number of bytes of superseded revisions.
	History int64
	// Full is true while there is no room for writes that make the log larger.
	Full bool
	// Since is the time of the last change of Full, without those because of an alarm of etcd.
	Since time.Time
	// Why is the reason why Full is true, and the next step; empty if it is false.
	Why string
	// Refused counts the writes that failed with ErrFull. Defragmentations counts the
	// defragmentations, and Defragmenting is their total duration.
	Refused          int64
	Defragmentations int
	Defragmenting    time.Duration
}

// Capacity is the log's quota, and the use of it. It is safe for concurrent use.
type Capacity struct {
	room             *room
	history          *history
	defragmentations durations
	// embedded is true for the log of an embedded etcd.
	embedded bool
}

// Usage returns the usage at the last measurement.
func (c *Capacity) Usage() Usage {
	var u Usage
	u.Size, u.Full, u.Refused = c.room.state()
	u.Since = c.room.changed()
	u.Full, u.History = u.Full || u.Alarm, c.history.kept()
	if u.Full {
		u.Why = u.describe(!c.embedded)
	}
	c.defragmentations.mu.Lock()
	defer c.defragmentations.mu.Unlock()
	u.Defragmentations, u.Defragmenting = c.defragmentations.count, c.defragmentations.took
	return u
}

// Written returns the approximate number of bytes that all hubs wrote to the log since it was opened.
func (c *Capacity) Written() int64 { return c.history.written() }

// Oldest returns approximately the oldest revision that the log still has.
func (c *Capacity) Oldest() int64 { return c.history.oldest() }

// Admit waits until there is room for a write of a number of bytes, key included. It returns ErrFull
// if there is no room, and ErrLate if making room takes longer than 30 seconds. The caller must call
// done when the write has ended.
func (c *Capacity) Admit(ctx context.Context, need Need, bytes int) (done func(), err error) {
	return c.room.admit(ctx, need, int64(bytes)+putOverhead)
}

// RefusedByEtcd reports that etcd itself has refused a write because of its quota, so that the log
// makes room at once.
func (c *Capacity) RefusedByEtcd() { c.room.requestRoom() }

// IsTight reports whether history must be compacted because of its size, or there may be no room
// for a write.
func (c *Capacity) IsTight() bool { return c.history.exceeds() || c.room.tight() }
