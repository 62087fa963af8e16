package store

import (
	"slices"
	"time"
)

const (
	// pruneSpan is how far back deletions are counted.
	pruneSpan = 10 * time.Minute
	// pruneFree is how many deletions within the span never wait.
	pruneFree = 50
)

// pruneWindow counts deletions that nobody asked for by name, by minute. Their age
// is told by a clock that nobody sets: one that is set must not open the window.
type pruneWindow []pruneMinute

type pruneMinute struct {
	// Unix is when it began by the wall clock, for an agent that starts anew, at is
	// the same by the clock of this one.
	Unix  int64 `json:"unix"`
	at    time.Time
	Count int `json:"count"`
}

// loaded is a window that another process has left. What is yet to come by a wall
// clock that was set back is as good as new.
func (p pruneWindow) loaded(now time.Time) pruneWindow {
	all := slices.Clone(p)
	for i, m := range all {
		all[i].at = now.Add(-max(0, now.Sub(time.Unix(m.Unix, 0))))
	}
	return all
}

// take counts one more deletion and returns true, or returns false when it is
// to wait: when, with those of the last minutes, it would be more than the
// percentage of what the location had then. left is what the location is to
// have after this deletion.
func (p *pruneWindow) take(now time.Time, percent, left int) bool {
	var recent pruneWindow // never in place: a copy of meta may share the array
	sum := 0
	for _, m := range *p {
		if now.Sub(m.at) < pruneSpan {
			recent, sum = append(recent, m), sum+m.Count
		}
	}
	if limit := (left + sum + 1) * percent / 100; sum+1 > max(pruneFree, limit) {
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

// mayRemove counts one more removal that follows from policy, or says that it
// is to wait for a confirmation.
func (t *Tx) mayRemove(now time.Time) bool {
	return t.meta.Settings.Purge || t.meta.Prune.take(now, t.meta.Settings.PruneMaxPercent, t.meta.Count)
}
