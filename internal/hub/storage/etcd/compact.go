package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	// historyPart is the part of the quota (one in historyPart) that history may take. Half
	// of it stays when it is compacted for its size.
	historyPart = 8
	// keepTick is how often Keep checks whether there is something to do.
	keepTick = time.Second
	// measureEvery is how often an idle log is measured.
	measureEvery = 5 * time.Second
	// measurePart is after which part of the quota (one in measurePart) was written that
	// the log is measured.
	measurePart = 64
	// retryDefragment is the pause after a defragmentation that failed: it needs as much
	// of the disk as is in use.
	retryDefragment = 10 * time.Minute
	// tightPart is the part of the file (one in tightPart) that must be free for a
	// defragmentation that makes room.
	tightPart = 10
	// calmDefragment is how many bytes in use a defragmentation moves at most only to
	// shrink the file. calmEvery is the pause between those, and calmPart the part of the
	// file (one in calmPart) that must be free.
	calmDefragment = 256 << 20
	calmEvery      = 10 * time.Minute
	calmPart       = 2
)

// Keeping says how the log is kept within its quota.
type Keeping struct {
	// Every is the interval of compactions of history that nobody resumes from.
	Every time.Duration
	// Seen is the revision of the table, asked before Floor and Reached, which are by what it
	// shows: the oldest revision that readers of any hub resume from, and the newest one that
	// they can all read from memory: nothing above it is ever compacted.
	Seen, Floor, Reached func() int64
	// Elected, if not nil, is the context of this hub's election to compact by age and size;
	// nil: another is elected. For want of room each does: to compact twice is to compact once.
	Elected func() context.Context
	// Before, if not nil, is called before each compaction with the revision below which
	// history goes. An error puts the compaction off, unless it says that the log is out
	// of space.
	Before func(ctx context.Context, floor int64) error
	// Quiet is how long an embedded etcd must be without writes before it is defragmented
	// only to give free space back to the disk.
	Quiet time.Duration
	// Pace limits work that holds up others, such as defragmentations.
	Pace Pace
}

// Pace is for how long work pauses after it was done: Factor times as long as it took, and
// no shorter than Least, which is more than 0.
type Pace struct {
	Factor int
	Least  time.Duration
}

// DefaultPace leaves most of the time to others, also where the work takes long.
func DefaultPace() Pace { return Pace{Factor: 5, Least: time.Second} }

func (p Pace) pause(took time.Duration) time.Duration {
	return max(p.Least, time.Duration(p.Factor)*took)
}

// Keep keeps the log within its quota until the context ends. It compacts history that
// readers no longer resume from or that takes too large a part of the quota, and all of it
// if a write does not fit otherwise. It defragments an embedded etcd when free space in its
// file would leave no room for writes, or, if that is quick, when nothing is written. It
// ends an alarm once there is room.
func (l *Log) Keep(ctx context.Context, keeping Keeping) error {
	k := &keeper{Keeping: keeping, log: l, room: l.room, regular: time.Now(), wrote: time.Now(), pressed: l.room.tight()}
	tick := time.NewTicker(min(keepTick, keeping.Every, keeping.Pace.Least))
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
	// measured is when the log was last measured, and written how much had been written
	// then; wrote is when something was last written.
	measured, wrote time.Time
	written         int64
	failing         bool
}

// round does what is due now.
func (k *keeper) round(ctx context.Context, now time.Time) {
	written := k.log.history.written()
	if written != k.written {
		k.wrote = now
	}
	size, full, _ := k.room.state()
	view := view{seen: k.Seen()}
	reached := k.Reached()
	if reached < k.compacted { // another log
		k.compacted = 0
	}
	making := (k.pressed || (full || size.Alarm) && reached > k.compacted) && !now.Before(k.squeeze)
	physical := making
	if making && k.log.copies.giveUp() { // the space that they keep is free a moment later
		k.pressed, k.squeeze = true, now.Add(k.Pace.pause(0))
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
	if !making && floor > 0 && k.Elected != nil {
		if view.elected = k.Elected(); view.elected == nil { // another hub does
			k.log.history.forget(min(floor, reached))
			floor, physical = 0, false
		}
	}
	due := now.Sub(k.measured) >= measureEvery || written-k.written > size.Quota/measurePart
	if !physical && !due {
		k.compact(ctx, min(floor, reached), false, view)
		return
	}
	k.room.begin(making)
	exact := k.compact(ctx, min(floor, reached), physical, view)
	size, err := k.log.meter.measure(ctx)
	if err != nil {
		k.warn(ctx, "measure the log", err)
		size, _, _ = k.room.state()
	}
	exact = making && exact && err == nil
	if exact && !size.takes(Growth, 0, largestWrite) {
		k.log.meter.settle(ctx)
		size = k.measuredAgain(ctx, size)
	}
	switch done, later := k.defragmented(ctx, size, exact, now); {
	case done:
		size = k.measuredAgain(ctx, size)
	case later: // writes wait for room until then
		exact = false
	}
	if k.disarmed(ctx, size) {
		size = k.measuredAgain(ctx, size)
	}
	if making {
		k.pressed = !exact
		k.squeeze = time.Now().Add(k.Pace.pause(time.Since(now)))
	}
	k.room.end(size, exact)
	k.failing = k.failing && err != nil
	k.measured, k.written = now, written
}

// measuredAgain is the log's size now, or before if it can't be measured.
func (k *keeper) measuredAgain(ctx context.Context, before Size) Size {
	size, err := k.log.meter.measure(ctx)
	if err != nil {
		return before
	}
	return size
}

// compact compacts history below a revision unless that was done. It returns false if it
// failed.
func (k *keeper) compact(ctx context.Context, rev int64, physical bool, by view) bool {
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
	if err := k.log.compact(ctx, rev, physical, before, by); err != nil {
		if errors.Is(err, ErrMoved) || errors.Is(err, ErrDeposed) || errors.Is(err, errHeldUp) { // the next round goes by what is so then
			k.log.logger.Debug("the log is not compacted", "revision", rev, "error", err)
			return false
		}
		k.warn(ctx, "compact the log", err)
		return false
	}
	k.compacted = rev
	k.log.history.forget(rev)
	return true
}

// warn logs a failure, once until there is success again.
func (k *keeper) warn(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || k.failing {
		return
	}
	k.failing = true
	k.log.logger.Warn(what, "error", err)
}

// defragmented defragments an embedded etcd if that is needed, or is cheap. later says that
// it is needed, but must wait.
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
	if !k.log.copying.TryLock() { // it would wait for the backup, and all writes for it
		return false, tight
	}
	end := k.log.still.begin(ctx)
	begun := time.Now()
	err := k.log.server.Server.Backend().Defrag()
	took := time.Since(begun)
	end()
	k.log.copying.Unlock()
	k.log.defragmentations.note(took)
	k.defragment, k.calm = time.Now().Add(k.Pace.pause(took)), time.Now().Add(calmEvery)
	if k.broken = err != nil; k.broken {
		k.defragment = time.Now().Add(retryDefragment)
		k.warn(ctx, "defragment the log", err)
		return false, false
	}
	k.log.logger.Info("defragmented the log", "fileBytes", size.File, "inUseBytes", size.InUse, "took", took)
	return true, false
}

// disarmed ends etcd's alarm if there is room, and says whether it did.
func (k *keeper) disarmed(ctx context.Context, size Size) bool {
	done, err := k.log.meter.disarm(ctx, size)
	if err != nil {
		k.warn(ctx, "end etcd's alarm", err)
	}
	return done
}
