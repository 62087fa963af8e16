package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultQuota is the maximum size of a database that etcd recommends.
	DefaultQuota = 8 << 30
	// MinQuota is the smallest quota for which the reserves below are large enough.
	MinQuota = 16 << 20
	// unknownQuota is etcd's default quota, for a cluster that does not report its quota.
	unknownQuota = 2 << 30
	// growthPart and upkeepPart are the percentages of the quota up to which writes with the needs
	// Growth and Upkeep are admitted. The rest is for the steps of deletions.
	growthPart = 80
	upkeepPart = 90
	// etcd's file must stay below the quota by 1/reservePart of the quota, and at least by minReserve
	// bytes: etcd refuses all writes when the size of its file reaches the quota.
	reservePart = 50
	minReserve  = 4 << 20
	// largestWrite is the size in bytes of a write. The log is full if it has no room for one.
	largestWrite = 3 << 19
	// roomTimeout is the maximum time that a write waits for room.
	roomTimeout = 30 * time.Second
)

// ErrFull is returned when the log has no room for a write. Objects can still be read, deleted and
// made smaller.
var ErrFull = errors.New("the log is out of space")

// ErrLate is returned when a write has waited for room until its timeout. A later attempt may succeed.
var ErrLate = errors.New("room is being made in the log, please try again later")

// Need is the purpose of a write. The more urgent it is, the more of the quota it may use.
type Need int

const (
	// Growth is a write of a user or a location that makes the log larger.
	Growth Need = iota
	// Upkeep is a write that replaces a value of about the same size, or a write of the hub itself.
	Upkeep
	// Sign is a write of a few bytes that records the session of an agent. It may use half of the
	// reserve of deletions: sessions must be recorded even while the file of an external etcd is too
	// large.
	Sign
	// Ending is a step of a deletion, which frees space. It is never refused.
	Ending
)

// Size is the size of the log, in bytes.
type Size struct {
	// Quota is the maximum size.
	Quota int64
	// File is the size of etcd's database file, and InUse the size of its pages that are not free.
	// In a cluster, each is the maximum of all members.
	File, InUse int64
	// Alarm is true while etcd refuses every put because its quota is exhausted.
	Alarm bool
}

// reserve returns the number of bytes of the quota that are reserved for steps of deletions.
func (s Size) reserve() int64 { return max(s.Quota/reservePart, minReserve) }

// hasRoom reports whether there is room for a write of a number of bytes, if more bytes are in use
// besides those that were measured.
func (s Size) hasRoom(need Need, more, bytes int64) bool {
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

// describe returns the reason why there is no room, and what to do.
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

// room admits writes by the size of the log. Pending writes count, so concurrent writers cannot
// exceed a limit together. It is safe for concurrent use.
type room struct {
	external bool

	mu   sync.Mutex
	size Size
	// flying is the number of bytes of writes under way, landed that of writes that ended since the
	// last measurement began, and carried that of earlier writes that the measurement may not
	// include.
	flying, landed, carried int64
	// full is true if there is no room for a largestWrite and no more can be made.
	full bool
	// since is the time of the last change of full.
	since time.Time
	// begun and ended count the attempts to make room, refused the writes that failed with ErrFull.
	begun, ended int
	refused      int64
	// measured is closed and replaced after each measurement.
	measured chan struct{}
	// short receives when a write needs room, and wakes the keeper.
	short chan struct{}
}

func newRoom(quota int64, external bool) *room {
	return &room{external: external, size: Size{Quota: quota}, since: time.Now(), measured: make(chan struct{}), short: make(chan struct{}, 1)}
}

// admit waits until there is room for a write. It returns ErrFull if no room can be made, and ErrLate
// after roomTimeout. The caller must call done when the write has ended.
func (r *room) admit(ctx context.Context, need Need, bytes int64) (done func(), err error) {
	timeout := time.NewTimer(roomTimeout)
	defer timeout.Stop()
	previous := -1 // attempts to make room before this write waits
	for {
		r.mu.Lock()
		if previous < 0 {
			previous = r.begun
		}
		tried := r.full || r.begun > previous && r.ended == r.begun
		if r.size.hasRoom(need, r.flying+r.landed+r.carried, bytes) || need == Ending && tried {
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
		r.requestRoom()
		select {
		case <-measured:
		case <-timeout.C:
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

// requestRoom wakes the keeper, so that it makes room.
func (r *room) requestRoom() {
	select {
	case r.short <- struct{}{}:
	default:
	}
}

// tight reports whether there may be no room for a largestWrite.
func (r *room) tight() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.size.hasRoom(Growth, r.flying+r.landed+r.carried, largestWrite)
}

// begin starts a measurement. making is true if it follows an attempt to make room.
func (r *room) begin(making bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carried, r.landed = r.landed, 0
	if making {
		r.begun++
	}
}

// end publishes a measurement. exact is true if the measurement includes all writes that landed before
// it began, and no more room can be made.
func (r *room) end(size Size, exact bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = size
	if exact {
		r.carried, r.ended = 0, r.begun
	}
	fits := size.hasRoom(Growth, r.flying+r.landed+r.carried, largestWrite)
	if (fits || exact) && r.full == fits {
		r.full, r.since = !fits, time.Now()
	}
	close(r.measured)
	r.measured = make(chan struct{})
}

// changed returns the time of the last change of full.
func (r *room) changed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// state returns the last measurement, whether the log is out of space, and the number of refused writes.
func (r *room) state() (size Size, full bool, refused int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.full, r.refused
}
