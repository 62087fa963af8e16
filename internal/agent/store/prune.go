package store

import (
	"slices"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// pruneSpan is how far back deletions are counted.
	pruneSpan = 10 * time.Minute
	// pruneFree is how many deletions within the span never wait.
	pruneFree = 50
)

// pruneWindow counts, by minute, removals that follow from policy. Their age is measured
// by the monotonic clock, so that setting the clock does not open the window.
type pruneWindow []pruneMinute

type pruneMinute struct {
	// Unix is when the minute began by the wall clock, in seconds, for the next process;
	// at is the same by this process' monotonic clock.
	Unix  int64 `json:"unix"`
	at    time.Time
	Count int `json:"count"`
}

// loaded is the window of an earlier process. Minutes in the future, since the wall clock
// was set back, count as new.
func (p pruneWindow) loaded(now time.Time) pruneWindow {
	all := slices.Clone(p)
	for i, m := range all {
		all[i].at = now.Add(-max(0, now.Sub(time.Unix(m.Unix, 0))))
	}
	return all
}

// allowance is how many removals do not wait of a shard, of which percent are those that its
// own objects allow. Over all shards that is never more than what the location allows, which
// is pruneFree, or the percent of all: each has its share of pruneFree, and what its own
// percent is beyond that.
func allowance(percent int, shard key.Shard) int {
	if shard.Whole() {
		return max(pruneFree, percent)
	}
	return pruneFree/shard.Of() + max(0, percent-pruneFree)
}

// take counts one more removal and returns true. It returns false if the removal has to
// wait: with those of the last minutes it would be more than percent of the objects that
// were desired before them allow. left counts those desired after this removal.
func (p *pruneWindow) take(now time.Time, percent, left int, shard key.Shard) bool {
	var recent pruneWindow // a new array: copies of Meta share the old one
	sum := 0
	for _, m := range *p {
		if now.Sub(m.at) < pruneSpan {
			recent, sum = append(recent, m), sum+m.Count
		}
	}
	if limit := (left + sum + 1) * percent / 100; sum+1 > allowance(limit, shard) {
		return false
	}
	if n := len(recent); n > 0 && now.Sub(recent[n-1].at) < time.Minute {
		recent[n-1].Count++
	} else {
		recent = append(recent, pruneMinute{Unix: now.Unix(), at: now, Count: 1})
	}
	*p = recent
	return true
}

// isFormers says that the object was last written as another location than this one, by an
// agent that has followed it to this one. Unless all is purged, nothing of these goes by
// policy before somebody says so, however few they are: a location that was added again has
// nothing assigned at first.
func (t *Tx) isFormers(r *Record) bool {
	self := ownership.NewOwner(t.meta.Location, t.meta.LocationUID)
	return !t.meta.Settings.Purge && r.As != "" && r.As != self
}

// mayRemove counts one more removal that follows from policy. It returns false if the
// removal has to wait for a confirmation.
func (t *Tx) mayRemove(now time.Time) bool {
	return t.meta.Settings.Purge || t.meta.Prune.take(now, t.meta.Settings.PruneMaxPercent, t.meta.Count, t.meta.Shard)
}
