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
	// MostPace is the largest number of requests under way at once, startPace the first.
	// Slow answers reduce it to leastPace at least, refusals to one.
	MostPace  = 64
	startPace = 16
	leastPace = 2
	// spareWorkers is how many more objects are worked on at once than requests may be under way: a
	// worker reads and composes before a request, and waits for the store after it.
	spareWorkers = 2
	// MostWorkers is the largest number of objects worked on at once.
	MostWorkers = MostPace + spareWorkers
	// carefully is how many rounds of good answers the next increase costs after a cut;
	// each further increase costs half as many, down to one round.
	carefully = 16
	// paceCalm is the least time between two cuts for slowness, in times of an answer;
	// shortCalm is the least in any case. What was under way at a cut shows nothing new.
	paceCalm  = 2
	shortCalm = 20 * time.Millisecond
	// Answers are slow if they take slowFactor times as long as the best ones, and longer
	// than slowFloor.
	slowFactor = 8
	slowFloor  = 100 * time.Millisecond
	// unsaidRest is how long a busy target is left alone if it does not say how long.
	unsaidRest = time.Second
	// mostPatience is the longest time for which a limit is left alone that was refused twice. It
	// is short, since of two agents at a full target the one that has less tries for longer.
	mostPatience = 2 * time.Second
	// freshRests is for how many times what the target asked for a refusal is recent enough to
	// say what trying again may cost.
	freshRests = 10
)

// Pace limits how many requests about objects are under way at once, and workers to a few more, so
// that what these do besides their requests leaves no room unused. It adapts to the target: the limit
// grows by one after each round of good answers, and shrinks by one when answers become
// slow.
//
// Each refusal (as of priority and fairness, or an overloaded server) sets it to one less
// than the requests under way, since these are what the target takes. Increases after
// that are slow, so refusals are few; and a limit that was refused again when it was tried
// again is left alone for as long as the target asks. It is also left alone while all that is ready
// takes less time than that: who is refused would be done after all others. Only the object that
// was refused waits as long as the target asks, since others are served meanwhile. All wait if two
// requests in a row are refused at a limit of one.
//
// Pace is safe for concurrent use.
type Pace struct {
	mu sync.Mutex
	// turns wakes workers, room requests.
	turns, room sync.Cond
	limit       float64
	most        float64
	// care is how many rounds of good answers the next increase costs.
	care float64
	// ceiling is the limit that was refused last; 0: none is known. If it is refused once more
	// when the limit has been raised to it, it is left alone until probe. raised says that the
	// limit was raised since the last refusal.
	ceiling int
	raised  bool
	probe   time.Time
	// known is when the limit went back to what had been served before it was raised: what was sent
	// before and is refused says nothing else, if others are served meanwhile. excused says that
	// one may be without that.
	known   time.Time
	excused bool
	// rest is how long the target asked to be left alone with its last refusal, and refusedAt when
	// that was. left is how many objects wait for a worker.
	rest      time.Duration
	refusedAt time.Time
	left      int
	// used counts workers that were let in, under the requests under way.
	used, under int
	// barren says that there was no good answer since the last refusal.
	barren bool
	// best and usual are the shortest and the average time of an answer.
	best, usual time.Duration
	cut         time.Time // the last time that limit was cut for slowness
	until       time.Time // no worker sends a request before then
}

func newPace(most int) *Pace {
	most = min(most, MostPace) // of MostWorkers some are spare
	p := &Pace{most: float64(most), limit: float64(min(startPace, most)), care: 1}
	p.turns.L, p.room.L = &p.mu, &p.mu
	return p
}

// Acquire waits until one more worker may look for an object. It returns false if ctx has
// ended. The worker calls Release when it is done.
func (p *Pace) Acquire(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.await(ctx, &p.turns, func() bool { return p.used < int(p.limit)+spareWorkers }) {
		return false
	}
	p.used++
	return true
}

// worker is the key of a context value that a worker's requests have.
type worker struct{}

// Begin notes that a worker that was let in has an object, of which so many more are ready, and
// waits while the target is to be left alone: what is sent is to be decided after that. The worker's
// requests have the context that it returns.
func (p *Pace) Begin(ctx context.Context, left int) context.Context {
	p.mu.Lock()
	p.left = left
	rest := time.Until(p.until)
	p.mu.Unlock()
	if rest > 0 {
		retry.Pause(ctx, rest)
	}
	return context.WithValue(ctx, worker{}, true)
}

// Release is the counterpart of Acquire.
func (p *Pace) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	p.turns.Signal()
}

// send waits until one more request may be under way; answered is called with its answer. It fails if
// ctx has ended, and a worker's while the target is to be left alone, as if that had refused: after that
// it may be another request that is to be sent. What somebody asks besides, such as what is there, is
// sent one after the other.
func (p *Pace) send(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.await(ctx, &p.room, func() bool { return p.under < int(p.limit) }) {
		return ctx.Err()
	}
	if rest := time.Until(p.until); rest > 0 && ctx.Value(worker{}) != nil {
		p.room.Signal() // the room is another's
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: "the cluster has asked for fewer requests, and is left alone", Details: &metav1.StatusDetails{RetryAfterSeconds: int32(rest/time.Second) + 1},
		}}
	}
	p.under++
	return nil
}

// await waits, with the lock, for what it is woken up for; false: ctx has ended.
func (p *Pace) await(ctx context.Context, wake *sync.Cond, so func() bool) bool {
	if ctx.Err() == nil && !so() {
		stop := context.AfterFunc(ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			wake.Broadcast()
		})
		defer stop()
		for ctx.Err() == nil && !so() {
			wake.Wait()
		}
	}
	if ctx.Err() != nil {
		wake.Signal() // whoever woke this one up meant somebody
		return false
	}
	return true
}

// answered notes an answer, and how long it took.
func (p *Pace) answered(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		p.under--
		p.room.Signal()
	}()
	now := time.Now()
	switch {
	case err != nil && overloaded(err):
		p.refused(now, now.Add(-took), restAfter(err))
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
	case p.under >= int(p.limit): // the limit is used up
		p.grow(now)
	}
}

// refused notes that a request which was sent at a time is refused by a target that asks to be left
// alone for rest. Only requests under way count, since a limit that is not used does not show what
// the target takes. A single refusal at a limit of one may be due to the request itself, such as for
// a kind with a limit of its own.
func (p *Pace) refused(now, sent time.Time, rest time.Duration) {
	p.rest, p.refusedAt = rest, now
	if until := now.Add(rest); p.barren && int(p.limit) == 1 && p.under <= 1 && until.After(p.until) {
		p.until = until
	}
	level := max(1, min(int(p.limit), p.under))
	if sent.Before(p.known) && (p.excused || !p.barren) {
		p.excused = p.excused && !p.barren
		p.barren = true
		return
	}
	if p.raised && level >= int(p.limit)-1 { // perhaps one has ended since it was refused
		level = int(p.limit)
		p.known, p.excused = now, true
	}
	if p.raised && level == p.ceiling {
		p.probe = now.Add(min(rest, mostPatience))
	}
	p.ceiling, p.raised = level, false
	p.reduce(max(1, level-1))
	p.barren = true
}

func (p *Pace) reduce(to int) { p.limit, p.care = float64(to), carefully }

func (p *Pace) grow(now time.Time) {
	before := int(p.limit)
	limit := min(p.most, p.limit+1/(p.limit*p.care))
	if int(limit) == p.ceiling && before < p.ceiling && (now.Before(p.probe) || p.soonDone(now)) {
		return
	}
	if p.limit = limit; int(p.limit) > before {
		if before >= p.ceiling { // which was served
			p.ceiling = 0
		}
		p.raised = true
		p.care = max(1, p.care/2)
		p.turns.Signal()
		p.room.Signal()
	}
}

// soonDone says that all that is ready is done within the time for which somebody who is refused
// waits. A refusal of long ago does not count: a limit does not stay low for it.
func (p *Pace) soonDone(now time.Time) bool {
	return now.Sub(p.refusedAt) < freshRests*p.rest && time.Duration(p.left)*p.usual < time.Duration(p.limit)*p.rest
}

// measure updates best and usual. best grows slowly, since a target may become slower for
// good.
func (p *Pace) measure(took time.Duration) {
	if p.best == 0 {
		p.best, p.usual = took, took
		return
	}
	p.usual += (took - p.usual) / 16
	p.best = min(took, p.best+p.best/512)
}

// Now is how many requests may be under way at once.
func (p *Pace) Now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.limit)
}

// overloaded says that the target asks for fewer requests, or does not answer.
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

// restAfter is how long the target is to be left alone. A target that is not merely busy
// is the gate's matter.
func restAfter(err error) time.Duration {
	after := RetryAfter(err)
	if after == 0 && Busy(err) {
		return unsaidRest
	}
	return after
}

// Busy says that the target answers, but asks for fewer requests.
func Busy(err error) bool {
	s := StatusOf(err)
	return s != nil && s.Code == http.StatusTooManyRequests
}

// Outage reports whether the target did not answer, or could not serve the request. Its etcd may have been
// restored meanwhile, so what was seen before has to be listed again. A target that is only busy was there.
func Outage(err error) bool { return err != nil && Unavailable(err) && !Busy(err) }
