package mapper

import (
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
)

const (
	// maxRetry is the longest wait between attempts that the target refuses.
	maxRetry = time.Minute
	// repairCalm is how long an object must stay unchanged after a repair until the next
	// one is immediate again; it doubles with each repair, up to sixteen times.
	repairCalm = 10 * time.Second
	// contestedRepairs is how many repairs without such calm make an object contested.
	contestedRepairs = 6
)

// repairDelay is how long to wait before drift is repaired, so that two writers do not
// undo each other's writes at full speed. The first repair is immediate.
func repairDelay(repairs uint8, last, now time.Time) time.Duration {
	if repairs == 0 || calmIn(repairs, last, now) < 0 {
		return 0
	}
	return retry.Backoff(repairs-1, retry.First, maxRetry) - now.Sub(last)
}

// calmIn is after how long a repaired object counts as calm if nobody changes it;
// negative: it does.
func calmIn(repairs uint8, last, now time.Time) time.Duration {
	return repairCalm<<min(repairs, 4) - now.Sub(last)
}

// contest is how much longer an object counts as contested; zero: it does not.
func contest(repairs uint8, last, now time.Time) time.Duration {
	if repairs < contestedRepairs {
		return 0
	}
	return max(0, calmIn(repairs, last, now))
}
