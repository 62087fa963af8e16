package mapper

import (
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
)

const (
	// maxRetry is how long a standing refusal waits between attempts.
	maxRetry = time.Minute
	// repairCalm is how long an object has to stay as it is for its next repair
	// to be immediate again.
	repairCalm = 10 * time.Second
	// contestedRepairs is how many repairs without such calm say that another
	// writer wants the object otherwise.
	contestedRepairs = 6
)

// repairDelay is how long a repair of drift waits, so that a fight with another
// writer is not fought at full speed: nothing the first time.
func repairDelay(repairs uint8, last, now time.Time) time.Duration {
	if repairs == 0 || calmIn(repairs, last, now) < 0 {
		return 0
	}
	return retry.Backoff(repairs-1, retry.First, maxRetry) - now.Sub(last)
}

// calmIn is in what time an object that was repaired counts as calm, if nobody
// changes it until then.
func calmIn(repairs uint8, last, now time.Time) time.Duration {
	return repairCalm<<min(repairs, 4) - now.Sub(last)
}

// contest is how long an object yet counts as one that another writer wants
// otherwise; zero: none does.
func contest(repairs uint8, last, now time.Time) time.Duration {
	if repairs < contestedRepairs {
		return 0
	}
	return max(0, calmIn(repairs, last, now))
}
