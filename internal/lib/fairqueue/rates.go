package fairqueue

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Rates limits the work of each flow, such as a space, per second. It drops idle flows. It is safe
// for concurrent use.
type Rates struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	all     map[string]*rate.Limiter
	sweep   int // number of flows at which idle ones are dropped
	refused int
}

const firstSweep = 128

// NewRates allows each flow perSecond units per second, with bursts of up to burst units.
func NewRates(perSecond, burst int) *Rates {
	return &Rates{limit: rate.Limit(perSecond), burst: burst, now: time.Now, all: map[string]*rate.Limiter{}, sweep: firstSweep}
}

// WithClock sets the clock, unless now is nil, and returns r. It must be called before r is used.
func (r *Rates) WithClock(now func() time.Time) *Rates {
	if now != nil {
		r.now = now
	}
	return r
}

func (r *Rates) limiter(name string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.all[name]
	if limiter != nil {
		return limiter
	}
	if len(r.all) >= r.sweep {
		for name, idle := range r.all {
			if idle.TokensAt(r.now()) >= float64(r.burst) {
				delete(r.all, name)
			}
		}
		r.sweep = max(firstSweep, 2*len(r.all))
	}
	limiter = rate.NewLimiter(r.limit, r.burst)
	r.all[name] = limiter
	return limiter
}

// Wait waits until the named flow may do n units. If that takes longer than timeout, it fails
// immediately with a TooManyRequests that has the time to retry. More than the burst counts as the
// burst.
func (r *Rates) Wait(ctx context.Context, name string, n int, timeout time.Duration) error {
	now := r.now()
	reserved := r.limiter(name).ReserveN(now, min(n, r.burst))
	delay := reserved.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	if delay > timeout {
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

// Begin fails with a TooManyRequests while the named flow has exceeded its rate. It is for work
// whose size is known only afterwards; see Count.
func (r *Rates) Begin(name string) error {
	if debt := -r.limiter(name).TokensAt(r.now()); debt > 0 {
		return r.tooMuch(name, time.Duration(debt/float64(r.limit)*float64(time.Second)))
	}
	return nil
}

// Count records that the named flow has done n units.
func (r *Rates) Count(name string, n int) {
	r.limiter(name).ReserveN(r.now(), min(n, r.burst))
}

func (r *Rates) tooMuch(name string, delay time.Duration) error {
	r.mu.Lock()
	r.refused++
	r.mu.Unlock()
	return apierrors.NewTooManyRequests(fmt.Sprintf("%s writes more than the hub takes, please try again later", name),
		int(math.Ceil(max(delay.Seconds(), 1))))
}

// Refusals returns how many requests were refused so far.
func (r *Rates) Refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
