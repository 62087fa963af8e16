package store

import "time"

const (
	// commitInterval is the time between two commits that nobody waits for, after commitBurst of them.
	// One observed change takes three commits, one after the other: what was seen, the report, and that
	// the hub has the report.
	commitInterval = 25 * time.Millisecond
	commitBurst    = 3
	// busyInterval is the time after a commit of manyWrites or more. A commit syncs the disk twice,
	// which took a sixth of a full sync without busyInterval.
	busyInterval = 200 * time.Millisecond
	manyWrites   = 8
)

// pace limits the rate of the commits that nobody waits for. It is a token bucket of commitBurst tokens;
// other commits take tokens, too, but are not delayed.
type pace struct {
	// full is when the bucket is full again.
	full time.Time
}

// next returns the earliest time of the next commit that nobody waits for.
func (p *pace) next() time.Time { return p.full.Add(-(commitBurst - 1) * commitInterval) }

// ended notes a commit of a number of writes.
func (p *pace) ended(now time.Time, writes int) {
	const empty = commitBurst * commitInterval
	if writes >= manyWrites {
		p.full = now.Add(busyInterval + empty - commitInterval)
		return
	}
	if p.full.Before(now) {
		p.full = now
	}
	if p.full = p.full.Add(commitInterval); p.full.After(now.Add(empty)) {
		p.full = now.Add(empty)
	}
}
