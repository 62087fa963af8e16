package store

import "time"

const (
	// commitInterval is the interval of commits that are not urgent, once commitBurst of them were made
	// without a pause. One observed change takes three commits in sequence: the observation, the report,
	// and the acknowledgement of the hub.
	commitInterval = 25 * time.Millisecond
	commitBurst    = 3
	// busyInterval is the minimum time between a commit of manyWrites or more writes and the next commit
	// that is not urgent: a commit waits twice for the disk.
	busyInterval = 200 * time.Millisecond
	manyWrites   = 8
)

// commitRate limits the rate of the commits that are not urgent. It is a token bucket of commitBurst
// tokens; urgent commits take tokens, too, but are not delayed.
type commitRate struct {
	// full is when the bucket is full again.
	full time.Time
}

// next returns the earliest time of the next commit that is not urgent.
func (r *commitRate) next() time.Time { return r.full.Add(-(commitBurst - 1) * commitInterval) }

// ended records a commit of a number of writes.
func (r *commitRate) ended(now time.Time, writes int) {
	const empty = commitBurst * commitInterval
	if writes >= manyWrites {
		r.full = now.Add(busyInterval + empty - commitInterval)
		return
	}
	if r.full.Before(now) {
		r.full = now
	}
	if r.full = r.full.Add(commitInterval); r.full.After(now.Add(empty)) {
		r.full = now.Add(empty)
	}
}
