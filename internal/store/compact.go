package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// historyPart is which part of the quota the log's history may take. Half of it
	// stays when it is compacted for its size.
	historyPart = 8
	// keepTick is how often it is looked whether something is to be done.
	keepTick = time.Second
	// measureEvery is how often an idle log is measured.
	measureEvery = 5 * time.Second
	// measurePart is after which part of the quota that was written it is measured.
	measurePart = 64
	// paceFactor keeps what costs others their time to one part in as many of all time.
	paceFactor = 5
	// minPace is the least time between two such.
	minPace = time.Second
	// retryDefragment is how long a defragmentation that failed is not tried again: it
	// needs as much of the disk as is in use.
	retryDefragment = 10 * time.Minute
	// tightPart is which part of the file has to be free for others to be held up by the
	// moving of the rest, when there is no room otherwise.
	tightPart = 10
	// calmDefragment is the most that is moved only to have a smaller file; calmEvery is
	// how often, and calmPart after how much of the file has become free.
	calmDefragment = 256 << 20
	calmEvery      = 10 * time.Minute
	calmPart       = 2
)

// Keeping says how the log is kept within its quota.
type Keeping struct {
	// Every is how often history that nobody resumes from is forgotten.
	Every time.Duration
	// Floor is the oldest revision that readers resume from, and Reached the newest
	// that all of them can read from memory: above it nothing is ever forgotten.
	Floor, Reached func() int64
	// Before is called before each compaction with the revision below which history
	// is about to be forgotten; an error puts it off, unless the log is out of space,
	// when nothing could be written before. nil: nothing is to be done before.
	Before func(ctx context.Context, floor int64) error
	// Quiet is for how long nothing was written when an embedded etcd gives free space
	// back to the disk.
	Quiet time.Duration
}

// Keep keeps the log within its quota until the context ends. It forgets history that
// left the window that readers resume from or takes too large a part of the quota, and,
// where a write would not fit, all of it. It defragments an embedded etcd when its file
// would leave no room though it is free, or, if that is quick, when nothing is written.
// It ends an alarm once there is room.
func (l *Log) Keep(ctx context.Context, keeping Keeping) error {
	k := &keeper{Keeping: keeping, log: l, room: l.room, regular: time.Now(), wrote: time.Now(), pressed: l.room.tight()}
	tick := time.NewTicker(min(keepTick, keeping.Every))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-l.history.over:
		case <-l.room.short:
			k.pressed = true
		}
		k.round(ctx, time.Now())
	}
}

// keeper is the state of Keep, of one goroutine.
type keeper struct {
	Keeping
	log  *Log
	room *room
	// pressed says that a write waits for room.
	pressed bool
	// compacted is the revision of the last compaction, regular the time of the last
	// one by age.
	compacted int64
	regular   time.Time
	// squeeze and defragment are the earliest times of the next ones; calm is that of
	// the next defragmentation that nobody waits for.
	squeeze, defragment, calm time.Time
	// broken says that the last defragmentation failed.
	broken bool
	// measured is when the log was measured last, and what had been written then;
	// wrote is when something was.
	measured, wrote time.Time
	written         int64
	failing         bool
}

// round does what is to be done now.
func (k *keeper) round(ctx context.Context, now time.Time) {
	written := k.log.history.written()
	if written != k.written {
		k.wrote = now
	}
	size, full, _ := k.room.state()
	reached := k.Reached()
	if reached < k.compacted { // another log
		k.compacted = 0
	}
	making := (k.pressed || (full || size.Alarm) && reached > k.compacted) && !now.Before(k.squeeze)
	physical := making
	if making && k.log.copies.giveUp() { // what they keep can be used again a moment later
		k.pressed, k.squeeze = true, now.Add(minPace)
		return
	}
	floor := int64(0)
	switch {
	case making:
		floor = reached
	case k.log.history.exceeds():
		floor = max(k.Floor(), k.log.history.half())
		physical = true
	case now.Sub(k.regular) >= k.Every:
		floor, k.regular = k.Floor(), now
	}
	due := now.Sub(k.measured) >= measureEvery || written-k.written > size.Quota/measurePart
	if !physical && !due {
		k.compact(ctx, min(floor, reached), false)
		return
	}
	k.room.begin(making)
	exact := k.compact(ctx, min(floor, reached), physical)
	size, err := k.log.measure(ctx)
	if err != nil {
		k.warn(ctx, "measure the log", err)
		size, _, _ = k.room.state()
	}
	exact = making && exact && err == nil
	switch done, later := k.defragmented(ctx, size, exact, now); {
	case done:
		size = k.measuredAgain(ctx, size)
	case later: // who waits for room does so until then
		exact = false
	}
	if k.disarmed(ctx, size) {
		size = k.measuredAgain(ctx, size)
	}
	if making {
		k.pressed = !exact
		k.squeeze = time.Now().Add(max(minPace, paceFactor*time.Since(now)))
	}
	k.room.end(size, exact)
	k.failing = k.failing && err != nil
	k.measured, k.written = now, written
}

// measuredAgain is the log's size now, or the one before if that can't be said.
func (k *keeper) measuredAgain(ctx context.Context, before Size) Size {
	size, err := k.log.measure(ctx)
	if err != nil {
		return before
	}
	return size
}

// compact forgets history below a revision, unless that was done; false if it could not.
func (k *keeper) compact(ctx context.Context, rev int64, physical bool) bool {
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
	if err := k.log.compact(ctx, rev, physical, before); err != nil {
		k.warn(ctx, "compact the log", err)
		return false
	}
	k.compacted = rev
	k.log.history.forget(rev)
	return true
}

// warn says what went wrong, once until it goes well again.
func (k *keeper) warn(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || k.failing {
		return
	}
	k.failing = true
	k.log.logger.Warn(what, "error", err)
}

// defragmented defragments an embedded etcd if that is needed, or is cheap; later says
// that it is needed, and not yet its time.
func (k *keeper) defragmented(ctx context.Context, size Size, needed bool, now time.Time) (done, later bool) {
	free := size.File - size.InUse
	if k.log.server == nil {
		return false, false
	}
	tight := needed && (size.Alarm && free >= size.reserve()/4 || size.File > size.Quota-2*size.reserve() && free >= size.File/tightPart)
	calm := !now.Before(k.calm) && now.Sub(k.wrote) >= k.Quiet && size.InUse <= calmDefragment &&
		free >= minReserve && free > size.File/calmPart
	switch {
	case !tight && !calm:
		return false, false
	case now.Before(k.defragment):
		return false, tight && !k.broken
	}
	if !k.log.copying.TryLock() { // it would wait for a backup, and all writes for it
		return false, tight
	}
	begun := time.Now()
	err := k.log.server.Server.Backend().Defrag()
	k.log.copying.Unlock()
	took := time.Since(begun)
	k.log.defragmentations.note(took)
	k.defragment, k.calm = time.Now().Add(max(minPace, paceFactor*took)), time.Now().Add(calmEvery)
	if k.broken = err != nil; k.broken {
		k.defragment = time.Now().Add(retryDefragment)
		k.warn(ctx, "defragment the log", err)
		return false, false
	}
	k.log.logger.Info("defragmented the log", "fileBytes", size.File, "inUseBytes", size.InUse, "took", took)
	return true, false
}

// disarmed ends etcd's alarm if there is room.
func (k *keeper) disarmed(ctx context.Context, size Size) bool {
	done, err := k.log.disarm(ctx, size)
	if err != nil {
		k.warn(ctx, "end etcd's alarm", err)
	}
	return done
}

// compact forgets history below a revision, the one place where that is done.
// physical waits until etcd can use the space again.
func (l *Log) compact(ctx context.Context, rev int64, physical bool, before func(context.Context, int64) error) error {
	if before != nil {
		if err := before(ctx, rev); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
	}
	var options []clientv3.CompactOption
	if physical {
		options = append(options, clientv3.WithCompactPhysical())
	}
	if _, err := l.client.Compact(ctx, rev, options...); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact the log at revision %d: %w", rev, err)
	}
	return nil
}
