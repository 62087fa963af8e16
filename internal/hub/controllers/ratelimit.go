package controllers

import (
	"sync"
	"time"
)

const (
	// paceLeast is how often something is written at most while it changes without pause,
	// and paceAtOnce how many changes go at once before that.
	paceLeast  = 100 * time.Millisecond
	paceAtOnce = 3
	// paceSteady is how often something is written at most that does not cease to change for
	// minutes, as a heartbeat in a status, and paceBurst how many writes go faster before.
	paceSteady = time.Second
	paceBurst  = 300
	// paceShare is the part of the time that is spent at most on one thing: one in so many.
	paceShare = 10
	// paceMost bounds what that makes of one time: what a write costs is mostly how long the log
	// takes, and when that has stood still nothing is to stand still for ten times as long.
	paceMost = 10 * time.Second
	// paceForgets is how many things are remembered before those that rest are forgotten.
	paceForgets = 1000
)

// pace has each of many things done at once while it changes seldom, and else at intervals
// in proportion to its cost. It is safe for concurrent use.
type pace struct {
	now func() time.Time

	mu sync.Mutex
	// due has what does not rest.
	due     map[string]due
	forgets int
}

// due is when a thing will have had as much time as it has cost, and when it will have been
// written no more often than every paceSteady.
type due struct{ cost, steady time.Time }

func (d due) rests(now time.Time) bool { return !d.cost.After(now) && !d.steady.After(now) }

// after is a time that is an interval later, but not in the past.
func after(t, now time.Time, interval time.Duration) time.Time {
	if t.Before(now) {
		t = now
	}
	return t.Add(interval)
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, due: map[string]due{}, forgets: paceForgets}
}

// wait is how long a thing has to wait.
func (p *pace) wait(k string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	due, ok := p.due[k]
	if !ok {
		return 0
	}
	now := p.now()
	return max(due.cost.Add(-(paceAtOnce-1)*paceLeast).Sub(now), due.steady.Add(-(paceBurst-1)*paceSteady).Sub(now))
}

// spent notes what it has cost to do a thing, and whether something was written.
func (p *pace) spent(k string, cost time.Duration, wrote bool) {
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
		if due.rests(now) {
			delete(p.due, k)
		}
	}
	p.forgets = max(paceForgets, 2*len(p.due))
}

// seldom bounds how often each of many things is written in the long run: once in an
// interval, and so many times before that. It is safe for concurrent use.
type seldom struct {
	now      func() time.Time
	interval time.Duration
	atOnce   int

	mu sync.Mutex
	// due is when a thing will have been written no more often than once in an interval.
	due     map[string]time.Time
	forgets int
}

func newSeldom(now func() time.Time, interval time.Duration, atOnce int) *seldom {
	return &seldom{now: now, interval: interval, atOnce: atOnce, due: map[string]time.Time{}, forgets: paceForgets}
}

// wait is how long a thing has to wait.
func (p *seldom) wait(k string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	due, ok := p.due[k]
	if !ok {
		return 0
	}
	return due.Add(-time.Duration(p.atOnce-1) * p.interval).Sub(p.now())
}

// wrote notes that a thing was written.
func (p *seldom) wrote(k string) {
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
