package fair

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Rates bounds how much each of many, such as spaces, does per second. It keeps
// nothing of those that do less. It is safe for concurrent use.
type Rates struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	all     map[string]*rate.Limiter
	sweep   int // at how many those that are idle are dropped
	refused int
}

const firstSweep = 128

// NewRates lets each do so much per second, and a burst at once.
func NewRates(perSecond, burst int) *Rates {
	return &Rates{limit: rate.Limit(perSecond), burst: burst, now: time.Now, all: map[string]*rate.Limiter{}, sweep: firstSweep}
}

func (r *Rates) of(name string) *rate.Limiter {
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

// Wait waits until n may be done, and no longer than patience: then the client is told
// when to come again.
func (r *Rates) Wait(ctx context.Context, name string, n int, patience time.Duration) error {
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

// Begin refuses somebody who has done more than they may; Count says what was done.
func (r *Rates) Begin(name string) error {
	if debt := -r.of(name).TokensAt(r.now()); debt > 0 {
		return r.tooMuch(name, time.Duration(debt/float64(r.limit)*float64(time.Second)))
	}
	return nil
}

// Count takes note that n were done.
func (r *Rates) Count(name string, n int) {
	r.of(name).ReserveN(r.now(), min(n, r.burst))
}

func (r *Rates) tooMuch(name string, delay time.Duration) error {
	r.mu.Lock()
	r.refused++
	r.mu.Unlock()
	return apierrors.NewTooManyRequests(fmt.Sprintf("%s writes more than the hub takes, please try again later", name),
		int(math.Ceil(max(delay.Seconds(), 1))))
}

// Refusals is how many were told to come again.
func (r *Rates) Refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
