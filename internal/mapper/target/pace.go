package target

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
)

const (
	// MostPace is how many objects are worked on at once at most, and startPace how
	// many at first. leastPace is what slow answers leave of it; refusals leave one.
	MostPace  = 64
	startPace = 16
	leastPace = 2
	// carefully is how many rounds of good answers one more costs after a cut; each
	// further one costs half as many, until it is one round.
	carefully = 16
	// paceCalm is how many answers' time two cuts for slowness are apart, and no
	// less than shortCalm: what was under way at the first one says nothing new.
	paceCalm  = 2
	shortCalm = 20 * time.Millisecond
	// slowFactor and slowFloor say when answers have become slow: more than so many
	// times as long as they take at best, and no less than this.
	slowFactor = 8
	slowFloor  = 100 * time.Millisecond
	// unsaidRest is for how long a busy target is left alone that does not say for
	// how long: what API servers say that do.
	unsaidRest = time.Second
)

// Pace is how many objects may be worked on at once. It follows the target: one
// more after each round of good answers, and slightly fewer when answers take long.
//
// Each refusal takes away one: what else is under way is what the target takes.
// So there are as many refusals as increases, and few of those after a refusal.
// Only the object that was refused waits for as long as the target said, since
// others are served meanwhile. All wait when one at a time is refused, and the one
// after it.
//
// It is safe for concurrent use.
type Pace struct {
	mu    sync.Mutex
	wake  sync.Cond
	limit float64
	most  float64
	// care is how many rounds of good answers the next increase costs.
	care float64
	// used are workers that have been let in, busy those of them with an object.
	used, busy int
	// barren says that nothing was answered since the last refusal.
	barren bool
	// best and usual are the shortest and the average time of an answer.
	best, usual time.Duration
	cut         time.Time // the last time that limit was cut for slowness
	until       time.Time // all leave the target alone until then
}

func newPace(most int) *Pace {
	p := &Pace{most: float64(most), limit: float64(min(startPace, most)), care: 1}
	p.wake.L = &p.mu
	return p
}

// Acquire waits until one more worker may look for an object; false: ctx has ended.
func (p *Pace) Acquire(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wake.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	for ctx.Err() == nil && p.used >= int(p.limit) {
		p.wake.Wait()
	}
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	p.used++
	return true
}

// Begin takes note that a worker that was let in has an object, and waits while
// the target wants to be left alone.
func (p *Pace) Begin(ctx context.Context) {
	p.mu.Lock()
	p.busy++
	rest := time.Until(p.until)
	p.mu.Unlock()
	if rest > 0 {
		retry.Pause(ctx, rest)
	}
}

// End ends what begin began.
func (p *Pace) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
}

// Release ends what acquire began.
func (p *Pace) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.wake.Signal()
}

// answered takes note of an answer to a worker, and of how long it took.
func (p *Pace) answered(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case err != nil && overloaded(err):
		p.refused(now, restAfter(err))
		return
	case err != nil && StatusOf(err) == nil:
		return // cancelled, or an answer that could not be read
	}
	p.barren = false
	p.measure(took)
	switch {
	case p.usual > max(slowFloor, slowFactor*p.best):
		if now.Sub(p.cut) >= max(shortCalm, paceCalm*p.usual) {
			p.cut = now
			p.reduce(max(min(leastPace, int(p.limit)), int(p.limit)-1))
		}
	case p.busy >= int(p.limit): // more would have been used
		p.grow()
	}
}

// refused takes note of a refusal by a target that wants to be left alone for a
// time. What was allowed and not used says nothing of what the target takes. That
// a single request is refused may be for what it is about, such as a kind with a
// limit of its own.
func (p *Pace) refused(now time.Time, rest time.Duration) {
	if until := now.Add(rest); p.barren && int(p.limit) == 1 && p.busy <= 1 && until.After(p.until) {
		p.until = until
	}
	p.reduce(max(1, min(int(p.limit), p.busy)-1))
	p.barren = true
}

func (p *Pace) reduce(to int) { p.limit, p.care = float64(to), carefully }

func (p *Pace) grow() {
	before := int(p.limit)
	p.limit = min(p.most, p.limit+1/(p.limit*p.care))
	if int(p.limit) > before {
		p.care = max(1, p.care/2)
		p.wake.Signal()
	}
}

// measure keeps the times of answers. The best one is forgotten slowly, since a
// target may become slower for good.
func (p *Pace) measure(took time.Duration) {
	if p.best == 0 {
		p.best, p.usual = took, took
		return
	}
	p.usual += (took - p.usual) / 16
	p.best = min(took, p.best+p.best/512)
}

// Now is how many objects may be worked on at once.
func (p *Pace) Now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.limit)
}

// overloaded says that the target wants less, or cannot do what it is asked.
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

// restAfter is for how long a target wants to be left alone. What is wrong with one
// that is not just busy and does not say it, the gate finds out.
func restAfter(err error) time.Duration {
	after := RetryAfter(err)
	if after == 0 && Busy(err) {
		return unsaidRest
	}
	return after
}

// Busy says that the target works, and has too much to do.
func Busy(err error) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusTooManyRequests
}
