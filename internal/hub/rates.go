package hub

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// rates bounds how much each of many, such as spaces, does per second. It keeps
// nothing of those that do less. It is safe for concurrent use.
type rates struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	all     map[string]*rate.Limiter
	sweep   int // at how many those that are idle are dropped
	refused int
}

const firstSweep = 128

func newRates(perSecond, burst int) *rates {
	return &rates{limit: rate.Limit(perSecond), burst: burst, now: time.Now, all: map[string]*rate.Limiter{}, sweep: firstSweep}
}

func (r *rates) of(name string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.all[name]
	if of != nil {
		return of
	}
	if len(r.all) >= r.sweep {
		for name, of := range r.all {
			if of.TokensAt(r.now()) >= float64(r.burst) {
				delete(r.all, name)
			}
		}
		r.sweep = max(firstSweep, 2*len(r.all))
	}
	of = rate.NewLimiter(r.limit, r.burst)
	r.all[name] = of
	return of
}

// wait waits until n may be done, and no longer than patience: then the client is told
// when to come again.
func (r *rates) wait(ctx context.Context, name string, n int, patience time.Duration) error {
	now := r.now()
	reserved := r.of(name).ReserveN(now, min(n, r.burst))
	delay := reserved.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	if delay > patience {
		reserved.CancelAt(now)
		return r.tooMuch(name, delay)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		reserved.Cancel()
		return ctx.Err()
	}
}

// begin refuses somebody who has done more than they may; count says what was done.
func (r *rates) begin(name string) error {
	if debt := -r.of(name).TokensAt(r.now()); debt > 0 {
		return r.tooMuch(name, time.Duration(debt/float64(r.limit)*float64(time.Second)))
	}
	return nil
}

func (r *rates) count(name string, n int) {
	r.of(name).ReserveN(r.now(), min(n, r.burst))
}

func (r *rates) tooMuch(name string, delay time.Duration) error {
	r.mu.Lock()
	r.refused++
	r.mu.Unlock()
	return apierrors.NewTooManyRequests(fmt.Sprintf("%s writes more than the hub takes, please try again later", name),
		int(math.Ceil(max(delay.Seconds(), 1))))
}

// refusals is how many were told to come again.
func (r *rates) refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
