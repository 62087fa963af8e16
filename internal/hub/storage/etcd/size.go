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
	// History is the approximate number of bytes in use by history.
	History int64
	// Full is true while there is no room for writes that make the log larger.
	Full bool
	// Since is the time of the last change of Full.
	Since time.Time
	// Why is the reason why there is no room, and what to do; empty if there is room.
	Why string
	// Refused counts the writes that failed with ErrFull. Defragmentations counts the
	// defragmentations, and Defragmenting is their total duration.
	Refused          int64
	Defragmentations int
	Defragmenting    time.Duration
}

// Usage returns the usage at the last measurement.
func (l *Log) Usage() Usage {
	var u Usage
	u.Size, u.Full, u.Refused = l.room.state()
	u.Since = l.room.changed()
	u.Full, u.History = u.Full || u.Alarm, l.history.kept()
	if u.Full {
		u.Why = u.describe(l.server == nil)
	}
	l.defragmentations.mu.Lock()
	defer l.defragmentations.mu.Unlock()
	u.Defragmentations, u.Defragmenting = l.defragmentations.count, l.defragmentations.took
	return u
}

// Written returns the approximate number of bytes that all hubs wrote to the log since it was opened.
func (l *Log) Written() int64 { return l.history.written() }

// Known returns the newest known revision of the log.
func (l *Log) Known() int64 {
	_, rev := l.reach.before()
	return rev
}

// Oldest returns approximately the oldest revision that the log still has.
func (l *Log) Oldest() int64 { return l.history.oldest() }

// Admit waits until there is room for a write of a number of bytes, key included. It returns ErrFull
// if there is no room, and ErrLate if making room takes longer than 30 seconds. The caller must call
// done when the write has ended.
func (l *Log) Admit(ctx context.Context, need Need, bytes int) (done func(), err error) {
	return l.room.admit(ctx, need, int64(bytes)+putOverhead)
}

// RefusedByEtcd reports that etcd itself has refused a write because of its quota, so that the log
// makes room at once.
func (l *Log) RefusedByEtcd() { l.room.requestRoom() }

// IsTight reports whether history must be compacted because of its size, or there may be no room
// for a write.
func (l *Log) IsTight() bool { return l.history.exceeds() || l.room.tight() }
