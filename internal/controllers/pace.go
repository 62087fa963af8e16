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
	// paceShare is the part of the time that is spent at most on one thing: one in so many.
	paceShare = 10
	// paceForgets is how many things are remembered before those that rest are forgotten.
	paceForgets = 1000
)

// pace has each of many things done at once while it changes seldom, and else at intervals
// in proportion to its cost. It is safe for concurrent use.
type pace struct {
	now func() time.Time

	mu sync.Mutex
	// due is when each thing will have had as much time as it has cost; who rests is not in it.
	due     map[string]time.Time
	forgets int
}

func newPace(now func() time.Time) *pace {
	return &pace{now: now, due: map[string]time.Time{}, forgets: paceForgets}
}

// wait is how long a thing has to wait.
func (p *pace) wait(k string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	due, ok := p.due[k]
	if !ok {
		return 0
	}
	return due.Add(-(paceAtOnce - 1) * paceLeast).Sub(p.now())
}

// spent notes what it has cost to do a thing, and whether something was written.
func (p *pace) spent(k string, cost time.Duration, wrote bool) {
	interval := paceShare * cost
	if wrote {
		interval = max(interval, paceLeast)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if due := p.due[k]; due.After(now) {
		p.due[k] = due.Add(interval)
	} else {
		p.due[k] = now.Add(interval)
	}
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
