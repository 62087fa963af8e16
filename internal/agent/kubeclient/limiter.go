package kubeclient

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// MaxRequests is the largest limit of concurrent requests, and initialLimit the first limit.
	// Slow responses reduce the limit to minLimit at least, rejections to one.
	MaxRequests  = 64
	initialLimit = 16
	minLimit     = 2
	// spareWorkers is the number of workers above the limit of requests: a worker prepares its object
	// before a request, and waits for the store after it.
	spareWorkers = 2
	// MaxWorkers is the largest number of concurrent workers.
	MaxWorkers = MaxRequests + spareWorkers
	// increaseRounds is the number of rounds of good responses before the first increase after a
	// reduction; each further increase needs half as many, down to one round.
	increaseRounds = 16
	// reduceFactor times the average response time, and at least minReduceInterval, is the minimum time
	// between two reductions for slowness: requests sent before a reduction do not show its effect.
	reduceFactor      = 2
	minReduceInterval = 20 * time.Millisecond
	// Responses are slow if they take slowFactor times as long as the fastest ones, and longer
	// than slowFloor.
	slowFactor = 8
	slowFloor  = 100 * time.Millisecond
	// defaultRest is the pause after a rejection by a busy target that sends no Retry-After.
	defaultRest = time.Second
	// maxProbeDelay is the longest time for which a limit is not tried again after two rejections. It
	// is short, so that of two agents at a full target the one with the lower limit can catch up.
	maxProbeDelay = 2 * time.Second
	// recentRests times the pause after a rejection is the time for which the rejection counts as recent.
	recentRests = 10
)

// Limiter limits the concurrent requests for objects, and the workers to a few more, so that the
// other work of a worker leaves no request slot unused. It adapts to the target: the limit grows by
// one after each round of good responses, and shrinks by one when responses become slow.
//
// Each rejection (such as by priority and fairness, or by an overloaded server) sets the limit to one
// less than the concurrent requests, since the target accepted these. Increases after that are slow,
// so rejections are few. A limit at which the target rejected a request twice is not tried again for
// the time that the target asked for. It is also not tried while all ready objects can be finished
// in less than that time: a rejected object would be the last one to finish. Only the rejected object
// waits for the time that the target asks for; others are sent meanwhile. All wait if two
// requests in a row are rejected at a limit of one.
//
// Limiter is safe for concurrent use.
type Limiter struct {
	mu sync.Mutex
	// workerCond wakes workers, requestCond requests.
	workerCond, requestCond sync.Cond
	limit                   float64
	most                    float64
	// rounds is the number of rounds of good responses before the next increase.
	rounds float64
	// ceiling is the limit at the last rejection; 0 if none is known. If the target rejects a
	// request again after the limit was raised to ceiling, it is not raised to it before probe.
	// raised reports whether the limit was raised since the last rejection.
	ceiling int
	raised  bool
	probe   time.Time
	// lowered is the time at which the limit was set back after a rejected increase. Rejections of
	// requests that were sent before do not count if other requests succeed meanwhile. isExcused
	// reports whether one such rejection is ignored even if none has succeeded.
	lowered   time.Time
	isExcused bool
	// rest is the pause that the target asked for in its last rejection, and refusedAt the time of
	// the rejection. left is the number of objects that wait for a worker.
	rest      time.Duration
	refusedAt time.Time
	left      int
	// used counts the workers after Acquire, under the concurrent requests.
	used, under int
	// failing reports whether there was no good response since the last rejection.
	failing bool
	// best and usual are the shortest and the average response time.
	best, usual time.Duration
	cut         time.Time // the last reduction for slowness
	until       time.Time // no worker sends a request before then
}

func newLimiter(most int) *Limiter {
	most = min(most, MaxRequests) // MaxWorkers includes spareWorkers
	p := &Limiter{most: float64(most), limit: float64(min(initialLimit, most)), rounds: 1}
	p.workerCond.L, p.requestCond.L = &p.mu, &p.mu
	return p
}

// Acquire waits until one more worker may take an object. It returns false if ctx has
// ended; otherwise the worker must call Release at its end.
func (p *Limiter) Acquire(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.await(ctx, &p.workerCond, func() bool { return p.used < int(p.limit)+spareWorkers }) {
		return false
	}
	p.used++
	return true
}

// worker is the context key that marks the requests of a worker.
type worker struct{}

// Begin is called by a worker that has an object, with the number of other ready objects. It waits
// while all requests pause, so that the worker decides only after the pause. The worker must use
// the returned context for its requests.
func (p *Limiter) Begin(ctx context.Context, left int) context.Context {
	p.mu.Lock()
	p.left = left
	rest := time.Until(p.until)
	p.mu.Unlock()
	if rest > 0 {
		retry.Pause(ctx, rest)
	}
	return context.WithValue(ctx, worker{}, true)
}

// Release ends a worker that Acquire has admitted.
func (p *Limiter) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.workerCond.Signal()
}

// send waits until one more request is allowed; the caller must call answered with its result. It fails
// if ctx has ended. During a pause it fails for a worker, with the error of a rejection by the target:
// after the pause the worker may have to send another request. Other requests, such as gets of an
// observed object, are sent also during a pause.
func (p *Limiter) send(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.await(ctx, &p.requestCond, func() bool { return p.under < int(p.limit) }) {
		return ctx.Err()
	}
	if rest := time.Until(p.until); rest > 0 && ctx.Value(worker{}) != nil {
		p.requestCond.Signal() // another request can use the slot
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: "the cluster has asked for fewer requests, and the agent waits", Details: &metav1.StatusDetails{RetryAfterSeconds: int32(rest/time.Second) + 1},
		}}
	}
	p.under++
	return nil
}

// await waits, with the lock held, until ready returns true. It returns false if ctx has ended.
func (p *Limiter) await(ctx context.Context, wake *sync.Cond, ready func() bool) bool {
	if ctx.Err() == nil && !ready() {
		stop := context.AfterFunc(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			wake.Broadcast()
		})
		defer stop()
		for ctx.Err() == nil && !ready() {
			wake.Wait()
		}
	}
	if ctx.Err() != nil {
		wake.Signal() // passes the signal on, which this one may have consumed
		return false
	}
	return true
}

// answered records the result of a request and its duration.
func (p *Limiter) answered(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		p.under--
		p.requestCond.Signal()
	}()
	now := time.Now()
	switch {
	case err != nil && overloaded(err):
		p.refused(now, now.Add(-took), restAfter(err))
		return
	case err != nil && StatusOf(err) == nil:
		return // cancelled, or a response that cannot be decoded
	}
	p.failing = false
	p.measure(took)
	switch {
	case p.usual > max(slowFloor, slowFactor*p.best):
		if now.Sub(p.cut) >= max(minReduceInterval, reduceFactor*p.usual) {
			p.cut = now
			p.reduce(max(min(minLimit, int(p.limit)), int(p.limit)-1))
		}
	case p.under >= int(p.limit): // the limit is fully used
		p.grow(now)
	}
}

// refused records that the target rejected a request sent at a given time, and asked for a pause
// (rest). It counts the concurrent requests, since an unused limit does not show how many the target
// accepts. A single rejection at a limit of one may be due to the request itself, such as for a kind
// with a limit of its own.
func (p *Limiter) refused(now, sent time.Time, rest time.Duration) {
	p.rest, p.refusedAt = rest, now
	if until := now.Add(rest); p.failing && int(p.limit) == 1 && p.under <= 1 && until.After(p.until) {
		p.until = until
	}
	level := max(1, min(int(p.limit), p.under))
	if sent.Before(p.lowered) && (p.isExcused || !p.failing) {
		p.isExcused = p.isExcused && !p.failing
		p.failing = true
		return
	}
	if p.raised && level >= int(p.limit)-1 { // one may have ended since the rejection
		level = int(p.limit)
		p.lowered, p.isExcused = now, true
	}
	if p.raised && level == p.ceiling {
		p.probe = now.Add(min(rest, maxProbeDelay))
	}
	p.ceiling, p.raised = level, false
	p.reduce(max(1, level-1))
	p.failing = true
}

func (p *Limiter) reduce(to int) { p.limit, p.rounds = float64(to), increaseRounds }

func (p *Limiter) grow(now time.Time) {
	before := int(p.limit)
	limit := min(p.most, p.limit+1/(p.limit*p.rounds))
	if int(limit) == p.ceiling && before < p.ceiling && (now.Before(p.probe) || p.soonDone(now)) {
		return
	}
	if p.limit = limit; int(p.limit) > before {
		if before >= p.ceiling { // requests at the ceiling have succeeded
			p.ceiling = 0
		}
		p.raised = true
		p.rounds = max(1, p.rounds/2)
		p.workerCond.Signal()
		p.requestCond.Signal()
	}
}

// soonDone reports whether all ready objects can be finished within the pause of one rejected object.
// It returns false if the last rejection is not recent, so that the limit does not stay low for it.
func (p *Limiter) soonDone(now time.Time) bool {
	return now.Sub(p.refusedAt) < recentRests*p.rest && time.Duration(p.left)*p.usual < time.Duration(p.limit)*p.rest
}

// measure updates best and usual. best grows slowly, since a target may become slower
// permanently.
func (p *Limiter) measure(took time.Duration) {
	if p.best == 0 {
		p.best, p.usual = took, took
		return
	}
	p.usual += (took - p.usual) / 16
	p.best = min(took, p.best+p.best/512)
}

// Now returns the current limit of concurrent requests.
func (p *Limiter) Now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.limit)
}

// overloaded reports whether the target asks for fewer requests, or does not respond.
func overloaded(err error) bool {
	s := StatusOf(err)
	if s == nil {
		return !errors.Is(err, context.Canceled)
	}
	switch s.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// restAfter returns the pause after a rejection; 0 if the target is not busy but unavailable, which
// internal/agent/health handles.
func restAfter(err error) time.Duration {
	after := RetryAfter(err)
	if after == 0 && Busy(err) {
		return defaultRest
	}
	return after
}

// Busy reports whether the target responds, but asks for fewer requests.
func Busy(err error) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusTooManyRequests
}

// Outage reports whether the target did not respond, or could not serve the request. Its etcd may have been
// restored meanwhile, so the agent must list the objects again. A busy target is not an outage.
func Outage(err error) bool { return err != nil && Unavailable(err) && !Busy(err) }
