package upsync

import (
	"time"

	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// restFor is how long an object rests after a change of it was reported: what changes
	// each second would be a write to the hub's log each second.
	restFor = 10 * time.Second
	// restMore is how much longer it is waited for the target to show an object again that
	// has changed meanwhile. What keeps changing does; of what does not, the last is read.
	restMore = 2 * time.Second
)

// rests says whether a change of an object that is reported already waits: if the change before
// it was reported right before. Its first change does not, nor does its end or one of its health.
func (l *ledger) rests(n *node, s *sighting, now time.Time) bool {
	reported := n.owned || len(n.born) > 0
	if !reported || n.health != s.health || n.ending != ends(s.meta) || n.told == 0 || l.clock(now)-n.told >= restFor {
		return false
	}
	l.resting[n] = struct{}{}
	return true
}

func ends(m *ownership.Meta) bool { return m.DeletionTimestamp != "" }

// clock is how long the ledger has been there, never zero. It takes less room than a time.
func (l *ledger) clock(now time.Time) time.Duration {
	if l.begun.IsZero() {
		l.begun = now
	}
	return now.Sub(l.begun) + 1
}

// rested has what has changed while it rested, and was not shown since, read again. It returns
// how long to wait until there is more; 0: nothing rests.
func (l *ledger) rested(now time.Time) (wait time.Duration) {
	for n := range l.resting {
		left := restFor + restMore - (l.clock(now) - n.told)
		if left <= 0 {
			delete(l.resting, n)
			l.needs[n] = struct{}{}
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}
