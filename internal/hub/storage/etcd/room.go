package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultQuota is what etcd recommends as the largest size of its database.
	DefaultQuota = 8 << 30
	// MinQuota is the smallest quota that the reserves below make sense with.
	MinQuota = 16 << 20
	// unknownQuota is etcd's own default, for a cluster that does not say its quota.
	unknownQuota = 2 << 30
	// growthPart and upkeepPart are how many percent of the quota may be in use for a write
	// of that need to be admitted. The rest is for the ends of deletions.
	growthPart = 80
	upkeepPart = 90
	// reservePart is the part of the quota (one in reservePart) by which etcd's file stays
	// below the quota, and minReserve its minimum in bytes: etcd goes by its file's size,
	// and refuses all writes when it reaches the quota.
	reservePart = 50
	minReserve  = 4 << 20
	// largestWrite is the size of a write, in bytes, that a log that is not full has room for.
	largestWrite = 3 << 19
	// roomPatience bounds how long a write waits for room.
	roomPatience = 30 * time.Second
)

// ErrFull says that the log has no room for a write. Objects can still be read, deleted and
// made smaller.
var ErrFull = errors.New("the log is out of space")

// ErrLate says that room is being made for a write, but was not made in time.
var ErrLate = errors.New("room is being made in the log, please try again later")

// Need says what a write is for: the less it can wait, the more of the quota it may use.
type Need int

const (
	// Growth is what users and locations add.
	Growth Need = iota
	// Upkeep replaces something as large, or is written by the hub itself.
	Upkeep
	// Sign is a few bytes that say who is there. It may use half of what is left to the ends of
	// deletions: while an external etcd's file is too large, agents have to be known to be there.
	Sign
	// Ending is a step of a deletion, which makes room. It is never refused.
	Ending
)

// Size is how large the log is.
type Size struct {
	// Quota is how large it may become.
	Quota int64
	// File is the size of etcd's database, and InUse the part of it that is not free, both
	// in bytes. Of several members they are the largest.
	File, InUse int64
	// Alarm says that etcd refuses every put.
	Alarm bool
}

// reserve is how many bytes of the quota are left to the ends of deletions.
func (s Size) reserve() int64 { return max(s.Quota/reservePart, minReserve) }

// takes says whether there is room for a write of bytes, if more bytes are in use than were
// measured.
func (s Size) takes(need Need, more, bytes int64) bool {
	if s.Alarm {
		return false
	}
	limit, reserve := s.Quota, s.reserve()
	switch need {
	case Growth:
		limit = s.Quota / 100 * growthPart
	case Upkeep:
		limit = s.Quota / 100 * upkeepPart
	case Sign:
		reserve /= 2
	case Ending:
		return true
	}
	used := s.InUse + more
	return used+bytes <= limit && max(s.File, used)+bytes <= s.Quota-reserve
}

// describe says why there is no room, and what to do.
func (s Size) describe(external bool) string {
	text := fmt.Sprintf("%d MiB are in use of a quota of %d MiB", s.InUse>>20, s.Quota>>20)
	switch {
	case external && s.InUse <= s.Quota/100*growthPart:
		return text + fmt.Sprintf(", and etcd's file has %d MiB: defragment etcd", s.File>>20)
	case s.Alarm:
		text += ", and etcd's alarm is raised"
	}
	return text + ": delete what is not needed"
}

// room knows how much the log holds, and admits writes. Pending writes count, so concurrent
// writers can't pass a limit together. It is safe for concurrent use.
type room struct {
	external bool

	mu   sync.Mutex
	size Size
	// flying are the bytes being written; landed those written since the last measurement
	// began; carried those written before that which it may not show.
	flying, landed, carried int64
	// full says that there is no room for a largestWrite, and that no more can be made.
	full bool
	// since is when full last changed.
	since time.Time
	// begun and ended count the attempts to make room.
	begun, ended int
	refused      int64
	// measured is closed and replaced with each measurement.
	measured chan struct{}
	// short wakes the keeper, which makes room.
	short chan struct{}
}

func newRoom(quota int64, external bool) *room {
	return &room{external: external, size: Size{Quota: quota}, since: time.Now(), measured: make(chan struct{}), short: make(chan struct{}, 1)}
}

// admit waits until there is room for a write. It fails with ErrFull if none can be made,
// and with ErrLate if that takes too long. done must be called when the write has ended.
func (r *room) admit(ctx context.Context, need Need, bytes int64) (done func(), err error) {
	patience := time.NewTimer(roomPatience)
	defer patience.Stop()
	asked := -1
	for {
		r.mu.Lock()
		if asked < 0 {
			asked = r.begun
		}
		tried := r.full || r.begun > asked && r.ended == r.begun
		if r.size.takes(need, r.flying+r.landed+r.carried, bytes) || need == Ending && tried {
			r.flying += bytes
			r.mu.Unlock()
			return func() { r.land(bytes) }, nil
		}
		if tried {
			r.refused++
			err := fmt.Errorf("%w: %s", ErrFull, r.size.describe(r.external))
			r.mu.Unlock()
			return nil, err
		}
		measured := r.measured
		r.mu.Unlock()
		r.press()
		select {
		case <-measured:
		case <-patience.C:
			return nil, ErrLate
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *room) land(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying -= bytes
	r.landed += bytes
}

// press wakes the keeper, which makes room.
func (r *room) press() {
	select {
	case r.short <- struct{}{}:
	default:
	}
}

// tight says whether there may be no room for a largestWrite.
func (r *room) tight() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.size.takes(Growth, r.flying+r.landed+r.carried, largestWrite)
}

// begin begins a measurement; making says that it follows an attempt to make room.
func (r *room) begin(making bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carried, r.landed = r.landed, 0
	if making {
		r.begun++
	}
}

// end publishes a measurement. exact says that it shows all that landed before it began, and
// that all was done to make room.
func (r *room) end(size Size, exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = size
	if exact {
		r.carried, r.ended = 0, r.begun
	}
	fits := size.takes(Growth, r.flying+r.landed+r.carried, largestWrite)
	if (fits || exact) && r.full == fits {
		r.full, r.since = !fits, time.Now()
	}
	close(r.measured)
	r.measured = make(chan struct{})
}

// changed is when full last changed.
func (r *room) changed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// state is the last measurement, whether the log is out of space, and how many writes were refused.
func (r *room) state() (size Size, full bool, refused int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.full, r.refused
}
