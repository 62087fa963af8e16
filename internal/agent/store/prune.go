package store

import (
	"slices"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// pruneSpan is the period over which removals are counted.
	pruneSpan = 10 * time.Minute
	// pruneFree is the number of removals within pruneSpan that never wait.
	pruneFree = 50
)

// pruneWindow counts, by minute, removals that follow from policy. It measures their age by the
// monotonic clock, so that a change of the wall clock does not empty the window.
type pruneWindow []pruneMinute

type pruneMinute struct {
	// Unix is the begin of the minute by the wall clock, in seconds, for the next process. begin is the
	// same by the monotonic clock of this process.
	Unix  int64 `json:"unix"`
	begin time.Time
	Count int `json:"count"`
}

// loaded returns the window of an earlier process with begin set. Minutes in the future, which exist
// if the wall clock was set back, count as new.
func (p pruneWindow) loaded(now time.Time) pruneWindow {
	all := slices.Clone(p)
	for i, m := range all {
		all[i].begin = now.Add(-max(0, now.Sub(time.Unix(m.Unix, 0))))
	}
	return all
}

// allowance returns how many removals of a shard need no confirmation. percent is the number that
// follows from the location's percentage and the objects of the shard. A location without shards
// allows pruneFree removals, or percent if that is more. A shard has its share of pruneFree, and the
// part of percent above pruneFree, so that all shards together never allow more than the location.
func allowance(percent int, shard key.Shard) int {
	if shard.Whole() {
		return max(pruneFree, percent)
	}
	return pruneFree/shard.Total() + max(0, percent-pruneFree)
}

// take counts one more removal and returns true. It returns false if the removal has to wait: with
// those within pruneSpan it would exceed the allowance, which is percent of the objects that were
// desired before them. left is the number of objects that are desired after this removal.
func (p *pruneWindow) take(now time.Time, percent, left int, shard key.Shard) bool {
	var recent pruneWindow // a new array: copies of Meta share the old one
	sum := 0
	for _, m := range *p {
		if now.Sub(m.begin) < pruneSpan {
			recent, sum = append(recent, m), sum+m.Count
		}
	}
	if limit := (left + sum + 1) * percent / 100; sum+1 > allowance(limit, shard) {
		return false
	}
	if n := len(recent); n > 0 && now.Sub(recent[n-1].begin) < time.Minute {
		recent[n-1].Count++
	} else {
		recent = append(recent, pruneMinute{Unix: now.Unix(), begin: now, Count: 1})
	}
	*p = recent
	return true
}
