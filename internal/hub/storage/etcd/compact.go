package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// 1/historyPart of the quota is the limit of the size of history. A compaction by size keeps
	// half of that.
	historyPart = 8
	// keepTick is the interval at which Keep checks what is due.
	keepTick = time.Second
	// measureEvery is the interval at which an idle log is measured.
	measureEvery = 5 * time.Second
	// The log is also measured whenever 1/measurePart of the quota was written.
	measurePart = 64
	// retryDefragment is the pause after a failed defragmentation. A likely cause is a full disk: a
	// defragmentation needs free disk space for all bytes in use.
	retryDefragment = 10 * time.Minute
	// A defragmentation that makes room requires that 1/tightPart of the file is free.
	tightPart = 10
	// An idle log is defragmented only to shrink its file: if at most idleMaxInUse bytes are in use,
	// more than 1/idlePart of the file is free, and idleEvery has passed since the last time.
	idleMaxInUse = 256 << 20
	idleEvery    = 10 * time.Minute
	idlePart     = 2
)

// Keeping configures Log.Keep, which keeps the log within its quota.
type Keeping struct {
	// Every is the interval of compactions by age.
	Every time.Duration
	// Seen returns the revision of the table. It is called before Floor and Reached, which depend
	// on the rows of the table. Floor returns the oldest revision from which a reader of any hub
	// resumes. Reached returns the newest revision that all hubs have in memory; no revision above
	// it is compacted.
	Seen, Floor, Reached func() int64
	// Elected, if not nil, returns the context of this hub's election to compact by age and size,
	// or nil if another hub is elected. To make room for a write, each hub compacts: a repeated
	// compaction has no effect.
	Elected func() context.Context
	// Before, if not nil, is called before each compaction with the revision below which
	// history is dropped. An error postpones the compaction, unless it is ErrFull or etcd's
	// ErrNoSpace.
	Before func(ctx context.Context, floor int64) error
	// Quiet is how long an embedded etcd must have had no writes before it is defragmented
	// only to return free space to the disk.
	Quiet time.Duration
	// Throttle limits work that blocks requests, such as defragmentations.
	Throttle Throttle
}

// Throttle is the pause after blocking work: Factor times the duration of the work, and at least
// Least, which must be positive.
type Throttle struct {
	Factor int
	Least  time.Duration
}

// DefaultThrottle returns a throttle that leaves five sixths of the time to requests.
func DefaultThrottle() Throttle { return Throttle{Factor: 5, Least: time.Second} }

func (t Throttle) pause(took time.Duration) time.Duration {
	return max(t.Least, time.Duration(t.Factor)*took)
}

// Keep keeps the log within its quota until the context ends. It compacts history that no reader
// resumes from, history above its limit of size, and all history if a write does not fit otherwise.
// It defragments an embedded etcd when its file is near the quota, or, if that is quick, when it is
// idle. It disarms etcd's alarm once there is room.
func (l *Log) Keep(ctx context.Context, keeping Keeping) error {
	k := &keeper{Keeping: keeping, log: l, room: l.capacity.room, regular: time.Now(), wrote: time.Now(), pressed: l.capacity.room.tight()}
	tick := time.NewTicker(min(keepTick, keeping.Every, keeping.Throttle.Least))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-l.capacity.history.over:
		case <-l.capacity.room.short:
			k.pressed = true
		}
		k.round(ctx, time.Now())
	}
}

// keeper is the state of Keep. Only Keep's goroutine uses it.
type keeper struct {
	Keeping
	log  *Log
	room *room
	// pressed is true while a write waits for room.
	pressed bool
	// compacted is the revision of the last compaction; regular is the time of the last compaction
	// by age.
	compacted int64
	regular   time.Time
	// squeeze and defragment are the earliest times of the next attempt to make room and of the next
	// defragmentation; idle is that of the next defragmentation of an idle log.
	squeeze, defragment, idle time.Time
	// broken is true if the last defragmentation failed.
	broken bool
	// measured is the time of the last measurement, and written the number of bytes written before
	// it; wrote is the time of the last known write.
	measured, wrote time.Time
	written         int64
	// failing is true after a failure was logged, until a measurement succeeds.
	failing bool
}

// round does the work that is due.
func (k *keeper) round(ctx context.Context, now time.Time) {
	written := k.log.capacity.history.written()
	if written != k.written {
		k.wrote = now
	}
	size, full, _ := k.room.state()
	decided := basis{seen: k.Seen()}
	reached := k.Reached()
	if reached < k.compacted { // the log was replaced
		k.compacted = 0
	}
	making := (k.pressed || (full || size.Alarm) && reached > k.compacted) && !now.Before(k.squeeze)
	physical := making
	if making && k.log.copies.giveUp() { // etcd frees the space of the copies a moment later
		k.pressed, k.squeeze = true, now.Add(k.Throttle.pause(0))
		return
	}
	floor := int64(0)
	switch {
	case making:
		floor = reached
	case k.log.capacity.history.exceeds():
		floor = max(k.Floor(), k.log.capacity.history.half())
		physical = true
	case now.Sub(k.regular) >= k.Every:
		floor, k.regular = k.Floor(), now
	}
	if !making && floor > 0 && k.Elected != nil {
		if decided.elected = k.Elected(); decided.elected == nil { // another hub compacts
			k.log.capacity.history.forget(min(floor, reached))
			floor, physical = 0, false
		}
	}
	due := now.Sub(k.measured) >= measureEvery || written-k.written > size.Quota/measurePart
	if !physical && !due {
		k.compact(ctx, min(floor, reached), false, decided)
		return
	}
	k.room.begin(making)
	exact := k.compact(ctx, min(floor, reached), physical, decided)
	size, err := k.log.meter.measure(ctx)
	if err != nil {
		k.warn(ctx, "measure the log", err)
		size, _, _ = k.room.state()
	}
	exact = making && exact && err == nil
	if exact && !size.hasRoom(Growth, 0, largestWrite) {
		k.log.meter.commitFreed(ctx)
		size = k.measuredAgain(ctx, size)
	}
	switch done, later := k.defragmented(ctx, size, exact, now); {
	case done:
		size = k.measuredAgain(ctx, size)
	case later: // writes wait for the defragmentation
		exact = false
	}
	if k.disarmed(ctx, size) {
		size = k.measuredAgain(ctx, size)
	}
	if making {
		k.pressed = !exact
		k.squeeze = time.Now().Add(k.Throttle.pause(time.Since(now)))
	}
	k.room.end(size, exact)
	k.failing = k.failing && err != nil
	k.measured, k.written = now, written
}

// measuredAgain measures the log, and returns before if that fails.
func (k *keeper) measuredAgain(ctx context.Context, before Size) Size {
	size, err := k.log.meter.measure(ctx)
	if err != nil {
		return before
	}
	return size
}

// compact compacts history below a revision unless this keeper has done so. It returns false if it
// failed.
func (k *keeper) compact(ctx context.Context, rev int64, physical bool, decided basis) bool {
	if rev <= k.compacted {
		return true
	}
	before := k.Before
	if before != nil {
		before = func(ctx context.Context, floor int64) error {
			if err := k.Before(ctx, floor); !errors.Is(err, rpctypes.ErrNoSpace) && !errors.Is(err, ErrFull) {
				return err
			}
			return nil
		}
	}
	if err := compact(ctx, k.log, rev, physical, before, decided); err != nil {
		if errors.Is(err, ErrMoved) || errors.Is(err, ErrDeposed) || errors.Is(err, errHeldUp) { // the next round decides anew
			k.log.logger.Debug("the log is not compacted", "revision", rev, "error", err)
			return false
		}
		k.warn(ctx, "compact the log", err)
		return false
	}
	k.compacted = rev
	k.log.capacity.history.forget(rev)
	return true
}

// warn logs a failure, but only the first one until a measurement succeeds.
func (k *keeper) warn(ctx context.Context, message string, err error) {
	if ctx.Err() != nil || k.failing {
		return
	}
	k.failing = true
	k.log.logger.Warn(message, "error", err)
}

// defragmented defragments an embedded etcd if that is needed, or if the log is idle. It returns
// later if a defragmentation is needed but must be postponed.
func (k *keeper) defragmented(ctx context.Context, size Size, needed bool, now time.Time) (done, later bool) {
	free := size.File - size.InUse
	if k.log.server == nil {
		return false, false
	}
	tight := needed && (size.Alarm && free >= size.reserve()/4 || size.File > size.Quota-2*size.reserve() && free >= size.File/tightPart)
	idle := !now.Before(k.idle) && now.Sub(k.wrote) >= k.Quiet && size.InUse <= idleMaxInUse &&
		free >= minReserve && free > size.File/idlePart
	switch {
	case !tight && !idle:
		return false, false
	case now.Before(k.defragment):
		return false, tight && !k.broken
	}
	if !k.log.copying.TryLock() { // a defragmentation would wait for the backup, and block all writes
		return false, tight
	}
	end := k.log.still.begin(ctx)
	begun := time.Now()
	err := k.log.server.Server.Backend().Defrag()
	took := time.Since(begun)
	end()
	k.log.copying.Unlock()
	k.log.capacity.defragmentations.add(took)
	k.defragment, k.idle = time.Now().Add(k.Throttle.pause(took)), time.Now().Add(idleEvery)
	if k.broken = err != nil; k.broken {
		k.defragment = time.Now().Add(retryDefragment)
		k.warn(ctx, "defragment the log", err)
		return false, false
	}
	k.log.logger.Info("defragmented the log", "fileBytes", size.File, "inUseBytes", size.InUse, "took", took)
	return true, false
}

// disarmed disarms etcd's alarm if there is room, and reports whether it did.
func (k *keeper) disarmed(ctx context.Context, size Size) bool {
	done, err := k.log.meter.disarm(ctx, size)
	if err != nil {
		k.warn(ctx, "end etcd's alarm", err)
	}
	return done
}
