package controllers

import (
	"sync"
	"time"
)

const (
	// paceLeast is the minimum interval between writes of an object that changes all the time;
	// paceAtOnce writes may go before that without delay.
	paceLeast  = 100 * time.Millisecond
	paceAtOnce = 3
	// paceSteady is the minimum interval between writes of an object that changes for minutes, such
	// as a heartbeat in a status; paceBurst writes may go faster before that.
	paceSteady = time.Second
	paceBurst  = 300
	// paceShare bounds the share of time that is spent on one object: one part in paceShare.
	paceShare = 10
	// paceMost bounds the interval that follows from one cost. The cost of a write is mostly the
	// latency of the log; after an outage of the log, the interval must not be ten times as long.
	paceMost = 10 * time.Second
	// paceForgets is the number of entries at which idle ones are dropped.
	paceForgets = 1000
)

// costLimiter limits the rate of work on each of many keys. Work on a key that changes rarely runs
// at once; otherwise, it runs at intervals in proportion to its cost. It is safe for concurrent
// use.
type costLimiter struct {
	now func() time.Time

	mu sync.Mutex
	// due holds the keys that are not idle.
	due     map[string]due
	forgets int
}

// due holds the times at which the budgets of a key are full again: the one for cost, and the one
// for writes at paceSteady.
type due struct{ cost, steady time.Time }

func (d due) isIdle(now time.Time) bool { return !d.cost.After(now) && !d.steady.After(now) }

// after returns t plus an interval, but counts from now if t is in the past.
func after(t, now time.Time, interval time.Duration) time.Time {
	if t.Before(now) {
		t = now
	}
	return t.Add(interval)
}

func newCostLimiter(now func() time.Time) *costLimiter {
	return &costLimiter{now: now, due: map[string]due{}, forgets: paceForgets}
}

// wait returns how long a key has to wait.
func (p *costLimiter) wait(k string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	due, ok := p.due[k]
	if !ok {
		return 0
	}
	now := p.now()
	return max(due.cost.Add(-(paceAtOnce-1)*paceLeast).Sub(now), due.steady.Add(-(paceBurst-1)*paceSteady).Sub(now))
}

// spent records the cost of work on a key, and whether it wrote the object.
func (p *costLimiter) spent(k string, cost time.Duration, wrote bool) {
	interval := min(paceShare*cost, paceMost)
	if wrote {
		interval = max(interval, paceLeast)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, d := p.now(), p.due[k]
	d.cost = after(d.cost, now, interval)
	if wrote {
		d.steady = after(d.steady, now, paceSteady)
	}
	p.due[k] = d
	if len(p.due) < p.forgets {
		return
	}
	for k, due := range p.due {
		if due.isIdle(now) {
			delete(p.due, k)
		}
	}
	p.forgets = max(paceForgets, 2*len(p.due))
}

// writeLimiter limits the rate of writes of each of many objects: to one per interval, after a
// burst of atOnce. It is safe for concurrent use.
type writeLimiter struct {
	now      func() time.Time
	interval time.Duration
	atOnce   int

	mu sync.Mutex
	// due holds the times at which the budget of a key is full again.
	due     map[string]time.Time
	forgets int
}

func newWriteLimiter(now func() time.Time, interval time.Duration, atOnce int) *writeLimiter {
	return &writeLimiter{now: now, interval: interval, atOnce: atOnce, due: map[string]time.Time{}, forgets: paceForgets}
}

// wait returns how long a key has to wait.
func (p *writeLimiter) wait(k string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	due, ok := p.due[k]
	if !ok {
		return 0
	}
	return due.Add(-time.Duration(p.atOnce-1) * p.interval).Sub(p.now())
}

// wrote records a write.
func (p *writeLimiter) wrote(k string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.due[k] = after(p.due[k], now, p.interval)
	if len(p.due) < p.forgets {
		return
	}
	for k, due := range p.due {
		if !due.After(now) {
			delete(p.due, k)
		}
	}
	p.forgets = max(paceForgets, 2*len(p.due))
}

// pauses limits the rate of reconciles of each of many keys: each decides when the next one of its
// key may run. It is for one worker.
type pauses struct {
	now  func() time.Time
	last map[string]pause
}

// pause is the time of a reconcile, and how long the next one has to wait.
type pause struct {
	since time.Time
	wait  time.Duration
}

func newPauses(now func() time.Time) *pauses { return &pauses{now: now, last: map[string]pause{}} }

// run reconciles a key, or returns an againError until it may run. reconcile returns how long the
// next one has to wait; 0 means that the object does not exist.
func (p *pauses) run(k string, reconcile func() (time.Duration, error)) error {
	now, last := p.now(), p.last[k]
	if left := last.wait - now.Sub(last.since); left > 0 && left <= last.wait {
		return againError(left)
	}
	wait, err := reconcile()
	if p.last[k] = (pause{now, wait}); wait == 0 {
		delete(p.last, k)
	}
	return err
}
