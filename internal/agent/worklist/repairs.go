package worklist

import (
	"time"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// mostRepairDelay is how long a repair waits at most.
	mostRepairDelay = time.Minute
	// RepairCalm is how long an object must stay unchanged after a repair until the next
	// one is immediate again; it doubles with each repair, up to sixteen times.
	RepairCalm = 10 * time.Second
	// contestedRepairs is how many repairs without such calm make an object contested.
	contestedRepairs = 6
)

// repairs are those of one object's drift, without calm between them.
type repairs struct {
	count uint8
	last  time.Time
}

// repaired notes a repair.
func (it *Item) repaired(now time.Time) {
	if it.repairs == nil {
		it.repairs = &repairs{}
	}
	it.repairs.again(now)
}

// again takes note of one more.
func (r *repairs) again(now time.Time) {
	if r.delay(now) == 0 && now.Sub(r.last) > RepairCalm<<4 {
		r.count = 0
	}
	r.count, r.last = min(r.count+1, retry.MaxFailures), now
}

// delay is how long to wait before drift is repaired, so that two writers do not
// undo each other's writes at full speed. The first repair is immediate.
func (r *repairs) delay(now time.Time) time.Duration {
	if r == nil || r.count == 0 || r.calmIn(now) < 0 {
		return 0
	}
	return retry.Backoff(r.count-1, retry.First, mostRepairDelay) - now.Sub(r.last)
}

// calmIn returns after how long a repaired object counts as calm if it is not changed;
// negative: it does.
func (r *repairs) calmIn(now time.Time) time.Duration {
	return RepairCalm<<min(r.count, 4) - now.Sub(r.last)
}

// contestedFor returns how much longer an object counts as contested; zero: it does not.
func (r *repairs) contestedFor(now time.Time) time.Duration {
	if r == nil || r.count < contestedRepairs {
		return 0
	}
	return max(0, r.calmIn(now))
}
