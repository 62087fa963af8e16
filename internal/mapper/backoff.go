package mapper

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstRetry = 100 * time.Millisecond
	// maxRetry is how long a standing refusal waits between attempts.
	maxRetry    = time.Minute
	maxFailures = 20
	// repairCalm is how long an object has to stay as it is for its next repair
	// to be immediate again.
	repairCalm = 10 * time.Second
	// contestedRepairs is how many repairs without such calm say that another
	// writer wants the object otherwise.
	contestedRepairs = 6
)

// backoff is how long to wait after a number of failures in a row: twice as
// long each time, up to a cap, and up to a quarter less so that those who failed
// together do not come back together.
func backoff(failures uint8, first, most time.Duration) time.Duration {
	d := most
	if failures < maxFailures {
		d = min(most, first<<failures)
	}
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// repairDelay is how long a repair of drift waits, so that a fight with another
// writer is not fought at full speed: nothing the first time.
func repairDelay(repairs uint8, last, now time.Time) time.Duration {
	if repairs == 0 || calmIn(repairs, last, now) < 0 {
		return 0
	}
	return backoff(repairs-1, firstRetry, maxRetry) - now.Sub(last)
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

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
