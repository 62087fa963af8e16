package store

import "time"

const (
	// commitInterval is the time between two commits that are not urgent, after commitBurst of them.
	// One observed change takes three commits, one after the other: what was seen, the report, and that
	// the hub has the report.
	commitInterval = 25 * time.Millisecond
	commitBurst    = 3
	// busyInterval is the time after a commit of manyWrites or more. A commit syncs the disk twice,
	// which took a sixth of a full sync without busyInterval.
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

// ended notes a commit of a number of writes.
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
