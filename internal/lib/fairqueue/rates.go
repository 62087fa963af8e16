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

// Rates bounds how much each flow, such as a space, does per second. It forgets
// flows that have been idle. It is safe for concurrent use.
type Rates struct {
	limit rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	all     map[string]*rate.Limiter
	sweep   int // at how many flows the idle ones are dropped
	refused int
}

const firstSweep = 128

// NewRates lets each flow do perSecond units per second, and burst at once.
func NewRates(perSecond, burst int) *Rates {
	return &Rates{limit: rate.Limit(perSecond), burst: burst, now: time.Now, all: map[string]*rate.Limiter{}, sweep: firstSweep}
}

// WithClock has the rates measure time by a clock, unless it is nil, and returns them. It must be
// called before they are used.
func (r *Rates) WithClock(now func() time.Time) *Rates {
	if now != nil {
		r.now = now
	}
	return r
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

// Wait waits until the named flow may do n units. If that takes longer than patience,
// it fails at once with a TooManyRequests that says when to come again. More than the
// burst counts as the burst.
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

// Begin fails with a TooManyRequests while the named flow has done more than it may.
// It is for work whose size is known only afterwards, see Count.
func (r *Rates) Begin(name string) error {
	if debt := -r.of(name).TokensAt(r.now()); debt > 0 {
		return r.tooMuch(name, time.Duration(debt/float64(r.limit)*float64(time.Second)))
	}
	return nil
}

// Count notes that the named flow has done n units.
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

// Refusals is how many requests were refused so far.
func (r *Rates) Refusals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}
