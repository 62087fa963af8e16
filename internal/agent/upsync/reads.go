package upsync

import (
	"time"

	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// reportDelay is the least time between the reports of two changes of an object. Without it, an object that
	// changes each second would cause a write to the hub's log each second.
	reportDelay = 10 * time.Second
	// eventDelay is an additional wait for an event of an object with an unreported change. If none comes in this
	// time, the agent reads the object.
	eventDelay = 2 * time.Second
)

// reads has the nodes whose objects the agent must read again, because it does not keep their content.
type reads struct {
	// needed are nodes to read now. delayed are nodes with an unreported change.
	needed, delayed map[*node]struct{}
	// start is the start of the clock.
	start time.Time
}

func newReads() *reads {
	return &reads{needed: map[*node]struct{}{}, delayed: map[*node]struct{}{}}
}

// need requests another read of a node.
func (r *reads) need(n *node) { r.needed[n] = struct{}{} }

// forget removes a node.
func (r *reads) forget(n *node) {
	delete(r.needed, n)
	delete(r.delayed, n)
}

// delays reports whether the change of a reported node must wait, because its previous change was reported
// recently. The first change of a node never waits, nor does a change of its health, nor its deletion.
func (r *reads) delays(n *node, s *sighting, now time.Time) bool {
	if !n.isReported() || n.health != s.health || n.terminating != isTerminating(s.meta) || n.reported == 0 || r.clock(now)-n.reported >= reportDelay {
		return false
	}
	r.delayed[n] = struct{}{}
	return true
}

func isTerminating(m *ownership.Meta) bool { return m.DeletionTimestamp != "" }

// clock returns the time since the first call, and never zero. It is smaller than a time.Time.
func (r *reads) clock(now time.Time) time.Duration {
	if r.start.IsZero() {
		r.start = now
	}
	return now.Sub(r.start) + 1
}

// requestDelayed requests another read of each object whose report was delayed for reportDelay and eventDelay. It returns the
// time until the next delay ends, or 0 if no report is delayed.
func (r *reads) requestDelayed(now time.Time) (wait time.Duration) {
	for n := range r.delayed {
		left := reportDelay + eventDelay - (r.clock(now) - n.reported)
		if left <= 0 {
			delete(r.delayed, n)
			r.need(n)
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}
