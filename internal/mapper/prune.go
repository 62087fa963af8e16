package mapper

import "time"

const (
	// pruneSpan is how far back deletions are counted.
	pruneSpan = 10 * time.Minute
	// pruneFree is how many deletions within the span never wait.
	pruneFree = 50
)

// pruneWindow counts deletions that nobody asked for by name, by minute.
type pruneWindow []pruneMinute

type pruneMinute struct {
	Unix  int64 `json:"unix"`
	Count int   `json:"count"`
}

// take counts one more deletion and returns true, or returns false when it is
// to wait: when, with those of the last minutes, it would be more than the
// percentage of what the location had then. left is what the location is to
// have after this deletion.
func (p *pruneWindow) take(now time.Time, percent, left int) bool {
	var recent pruneWindow // never in place: a copy of meta may share the array
	sum := 0
	for _, m := range *p {
		if age := now.Sub(time.Unix(m.Unix, 0)); age < pruneSpan && age > -pruneSpan {
			recent, sum = append(recent, m), sum+m.Count
		}
	}
	if limit := (left + sum + 1) * percent / 100; sum+1 > max(pruneFree, limit) {
		return false
	}
	minute := now.Truncate(time.Minute).Unix()
	if n := len(recent); n > 0 && recent[n-1].Unix == minute {
		recent[n-1].Count++
	} else {
		recent = append(recent, pruneMinute{Unix: minute, Count: 1})
	}
	*p = recent
	return true
}
