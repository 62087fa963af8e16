package hubclient

import (
	"context"
	"errors"
	"time"
)

const (
	// shortestSilence is the least time without a frame that an end of a session says
	// anything about, and leastAsked the shortest heartbeat that is asked for.
	shortestSilence = time.Second
	leastAsked      = time.Second
	// alike is by which part two silences may differ that have the same cause.
	alike = 4
)

// errSilent ends a session on which nothing arrives.
var errSilent = errors.New("nothing heard from the hub for too long")

// pulse finds out how often the hub has to be heard, so that nothing between hub and
// agent takes a quiet session for one that has ended. Two sessions in a row that ended
// alike in silence show that; one may have ended for any reason. It is used by one
// goroutine.
type pulse struct {
	// asked is the heartbeat to ask for; 0: the hub's own.
	asked time.Duration
	// before is how long the last session was silent before it broke; 0: it did not.
	before time.Duration
}

// ask is the heartbeat to ask for, in seconds; 0: none.
func (p *pulse) ask() int { return int(p.asked / time.Second) }

// ended takes note of how a session ended: how long nothing was heard then, what heartbeat
// had been agreed, and what broke it. It returns whether another heartbeat is to be asked for.
func (p *pulse) ended(silent, heartbeat time.Duration, err error) (news bool) {
	before := p.before
	p.before = 0
	if !broken(err) || silent < shortestSilence {
		return false
	}
	if errors.Is(err, errSilent) {
		silent = heartbeat // somewhere between one and the other heartbeat it was lost
	}
	p.before = min(silent, heartbeat)
	if before == 0 || (before-p.before).Abs() > max(before, p.before)/alike {
		return false
	}
	next := max(min(before, p.before)/2, leastAsked).Truncate(time.Second)
	if next >= heartbeat {
		return false
	}
	p.asked, p.before = next, 0
	return true
}

// broken says that neither hub nor agent has ended a session.
func broken(err error) bool {
	for _, not := range []error{errWalked, errReplaced, errBye, errMoved, errAccepted, errRenewed, context.Canceled} {
		if errors.Is(err, not) {
			return false
		}
	}
	return err != nil
}
