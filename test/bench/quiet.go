package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// nothingChanging waits until the hub's log is quiet. For the time of size.quiet it then counts the agent's
// requests in the cluster's audit log, which has a watch only after its end, the revisions of the hub's log, and
// the bytes of the agent's TCP connections to the hub in both directions, with TLS. The hub's own heartbeats are
// part of it.
func (b *bench) nothingChanging() error {
	if err := b.calmDown(); err != nil {
		return err
	}
	up, down := b.link.Bytes()
	still, err := b.stillness()
	if err != nil {
		return err
	}
	nowUp, nowDown := b.link.Bytes()
	bytes := nowUp - up + nowDown - down
	const day = 24 * time.Hour
	b.report.set("quiet.requests", float64(len(still.requests)), "%d objects, %s", b.placed, still)
	b.report.set("quiet.revisions", float64(still.revisions), "")
	b.report.set("quiet.bytes", float64(bytes)*day.Seconds()/still.took.Seconds()/1e6, "%d bytes", bytes)
	return nil
}

// stillness is what happened while nothing changed: requests of agents to the cluster, and
// revisions of the hub's log.
type stillness struct {
	took      time.Duration
	requests  []env.AuditEvent
	revisions int64
}

// String returns the duration and the first request.
func (s stillness) String() string {
	text := fmt.Sprintf("for %s", s.took.Round(time.Second))
	if len(s.requests) > 0 {
		text += fmt.Sprintf("; the first: %s %s", s.requests[0].Verb, s.requests[0].RequestURI)
	}
	return text
}

// stillness lets as much time pass as size.quiet says.
func (b *bench) stillness() (s stillness, err error) {
	before, err := b.revision()
	if err != nil {
		return s, err
	}
	start := time.Now()
	if !wait(b.ctx, b.size.quiet) {
		return s, b.ctx.Err()
	}
	s.took = time.Since(start)
	after, err := b.revision()
	s.revisions = after - before
	s.requests = b.cluster.Requests(b.t, env.Filter{User: env.AgentUser, After: start})
	return s, err
}

// calmDown waits until the hub's log has come to rest.
func (b *bench) calmDown() error {
	const each = 100 * time.Millisecond // for the writes of each location
	last, since := int64(0), time.Now()
	limit := timeLimit + time.Duration(b.size.sites)*each
	return eventuallyWithin(b.ctx, limit, "the hub's log to come to rest", func() error {
		now, err := b.revision()
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < b.size.quietTime {
			return fmt.Errorf("it moved %s ago", quiet.Round(time.Millisecond))
		}
		return nil
	})
}
