package hubclient

import (
	"context"
	"errors"
	"time"
)

const (
	// shortestSilence is the minimum time without data at the end of a session that pulse
	// considers, and minHeartbeat the shortest heartbeat that is requested.
	shortestSilence = time.Second
	minHeartbeat    = time.Second
	// alike is the divisor of the longer of two silences that gives their largest difference if
	// they have the same cause.
	alike = 4
)

// errSilent ends a session on which no data arrives.
var errSilent = errors.New("no data from the hub for too long")

// pulse determines how often the hub must send heartbeats, so that no proxy or firewall between
// hub and agent closes a quiet session. Two sessions in a row that broke after similar silences
// show that; one session may have broken for any reason. It is used by one goroutine.
type pulse struct {
	// requested is the heartbeat to request; 0 for the hub's default.
	requested time.Duration
	// before is the silence before the last session broke; 0 if it did not break.
	before time.Duration
}

// request returns the heartbeat to request, in seconds; 0 for the hub's default.
func (p *pulse) request() int { return int(p.requested / time.Second) }

// ended records the end of a session: the time without data before it, the heartbeat of the
// session, and the error that ended it. It reports whether the heartbeat to request has changed.
func (p *pulse) ended(silent, heartbeat time.Duration, err error) (news bool) {
	before := p.before
	p.before = 0
	if !broken(err) || silent < shortestSilence {
		return false
	}
	if errors.Is(err, errSilent) {
		silent = heartbeat // the connection was lost between two heartbeats
	}
	p.before = min(silent, heartbeat)
	if before == 0 || (before-p.before).Abs() > max(before, p.before)/alike {
		return false
	}
	next := max(min(before, p.before)/2, minHeartbeat).Truncate(time.Second)
	if next >= heartbeat {
		return false
	}
	p.requested, p.before = next, 0
	return true
}

// broken reports whether neither hub nor agent has ended a session.
func broken(err error) bool {
	for _, not := range []error{errWalked, errReplaced, errBye, errMoved, errAccepted, errRenewed, context.Canceled} {
		if errors.Is(err, not) {
			return false
		}
	}
	return err != nil
}
