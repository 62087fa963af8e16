package etcd

import (
	"context"
	"sync"
	"time"
)

// durations sums up how often something was done, and how long it took in all.
type durations struct {
	mu    sync.Mutex
	count int
	took  time.Duration
}

func (d *durations) note(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	d.took += took
}

// Usage is how much of its quota the log uses, and what was done to keep within it.
type Usage struct {
	Size
	// History is about how many of the bytes in use are history.
	History int64
	// Full says that there is no room for writes that make the log larger.
	Full bool
	// Since is when Full last changed.
	Since time.Time
	// Why says why there is no room, and what to do.
	Why string
	// Refused counts the writes that were refused. Defragmentations is how often the log
	// was defragmented, and Defragmenting how long that took in all.
	Refused          int64
	Defragmentations int
	Defragmenting    time.Duration
}

// Usage is the log's usage when it was last measured.
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

// Written is about how many bytes were written to the log since it was opened, by whomever.
func (l *Log) Written() int64 { return l.history.written() }

// Known is the newest revision that the log is known to have had.
func (l *Log) Known() int64 {
	_, rev := l.reach.before()
	return rev
}

// Oldest is about the oldest revision that the log still has.
func (l *Log) Oldest() int64 { return l.history.oldest() }

// Admit waits until there is room for a write of a number of bytes, key included. It fails
// with ErrFull if there is none, and with ErrLate if making room takes too long. done must
// be called when the write has ended.
func (l *Log) Admit(ctx context.Context, need Need, bytes int) (done func(), err error) {
	return l.room.admit(ctx, need, int64(bytes)+putOverhead)
}

// RefusedByEtcd says that etcd itself refused a write for want of room, so that room is made
// at once.
func (l *Log) RefusedByEtcd() { l.room.press() }

// Presses says that history is to be forgotten for its size, or that writes wait for room.
func (l *Log) Presses() bool { return l.history.exceeds() || l.room.tight() }
