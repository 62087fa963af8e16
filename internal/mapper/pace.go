package mapper

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// startPace, leastPace and mostPace are how many objects are worked on at once:
	// at first, in the worst of times, and at most.
	startPace = 16
	leastPace = 2
	mostPace  = 64
	// paceCalm is how many answers' time two cuts are apart, and no less than
	// shortCalm: what was under way at the first one says nothing new.
	paceCalm  = 2
	shortCalm = 20 * time.Millisecond
	// carefully is by how much more slowly the pace grows near the one that was too
	// much: a refusal may cost a whole second, in which a target does hundreds.
	carefully = 128
	// slowFactor and slowFloor say when answers have become slow: more than so many
	// times as long as they take at best, and no less than this.
	slowFactor = 8
	slowFloor  = 100 * time.Millisecond
)

// pace is how many objects may be worked on at once. It follows the target: one
// more after each round of good answers, half as many when the target asks for
// less or cannot answer, slightly fewer when its answers take long. It is safe
// for concurrent use.
type pace struct {
	mu    sync.Mutex
	wake  sync.Cond
	limit float64
	// tooMuch is the pace at the last cut; zero: there was none.
	tooMuch float64
	most    float64
	// used are workers that have been let in, busy those of them with an object.
	used, busy int
	// best and usual are the shortest and the average time of an answer.
	best, usual time.Duration
	cut         time.Time // the last time that limit was cut
	until       time.Time // the target asked to be left alone until then
}

func newPace(most int) *pace {
	p := &pace{most: float64(most), limit: float64(min(startPace, most))}
	p.wake.L = &p.mu
	return p
}

// acquire waits until one more worker may look for an object; false: ctx has ended.
func (p *pace) acquire(ctx context.Context) bool {
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

// begin takes note that a worker that was let in has an object, and waits while
// the target wants to be left alone.
func (p *pace) begin(ctx context.Context) {
	p.mu.Lock()
	p.busy++
	rest := time.Until(p.until)
	p.mu.Unlock()
	if rest > 0 {
		pause(ctx, rest)
	}
}

// end ends what begin began.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
}

// release ends what acquire began.
func (p *pace) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.wake.Signal()
}

// answered takes note of an answer, and of how long it took.
func (p *pace) answered(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case err != nil && overloaded(err):
		if after := now.Add(retryAfter(err)); after.After(p.until) {
			p.until = after
		}
		p.reduce(now, p.limit/2)
		return
	case err != nil && statusOf(err) == nil:
		return // cancelled, or an answer that could not be read
	}
	p.measure(took)
	if p.usual > max(slowFloor, slowFactor*p.best) {
		p.reduce(now, p.limit-1)
		return
	}
	if p.busy >= int(p.limit) { // more would have been used
		step := 1 / p.limit
		switch {
		case p.limit >= p.tooMuch+1:
			p.tooMuch = 0 // it is not any more
		case p.limit > p.tooMuch*3/4:
			step /= carefully
		}
		p.limit = min(p.most, p.limit+step)
		p.wake.Signal()
	}
}

func (p *pace) reduce(now time.Time, to float64) {
	if now.Sub(p.cut) < max(shortCalm, paceCalm*p.usual) {
		return
	}
	p.cut, p.tooMuch = now, p.limit
	p.limit = max(min(leastPace, p.most), to)
}

// measure keeps the times of answers. The best one is forgotten slowly, since a
// target may become slower for good.
func (p *pace) measure(took time.Duration) {
	if p.best == 0 {
		p.best, p.usual = took, took
		return
	}
	p.usual += (took - p.usual) / 16
	p.best = min(took, p.best+p.best/512)
}

// now is how many objects may be worked on at once.
func (p *pace) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.limit)
}

// overloaded says that the target wants less, or cannot do what it is asked.
func overloaded(err error) bool {
	s := statusOf(err)
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
