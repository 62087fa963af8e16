package main

import (
	"fmt"
	"time"

	"orrery.dev/orrery/test/env"
)

// nothingChanging waits until the hub's log has not moved for a while and then
// counts, for as long as size.quiet says, the agent's requests in the cluster's
// audit log, where a watch is only once it has ended; the revisions of the hub's
// log; and what goes over the agent's TCP connections to the hub, TLS included,
// both ways. The hub's own heartbeats are part of it.
func (b *bench) nothingChanging() error {
	if err := b.calmDown(); err != nil {
		return err
	}
	before, err := b.revision()
	if err != nil {
		return err
	}
	up, down := b.link.Bytes()
	start := time.Now()
	if !wait(b.ctx, b.size.quiet) {
		return b.ctx.Err()
	}
	took := time.Since(start)
	nowUp, nowDown := b.link.Bytes()
	bytes := nowUp - up + nowDown - down
	after, err := b.revision()
	if err != nil {
		return err
	}
	requests := b.cluster.Requests(b.t, env.Filter{User: env.AgentUser, After: start})
	note := fmt.Sprintf("%d objects, for %s", b.placed, took.Round(time.Second))
	if len(requests) > 0 {
		note += fmt.Sprintf("; the first: %s %s", requests[0].Verb, requests[0].RequestURI)
	}
	const day = 24 * time.Hour
	b.report.set("quiet.requests", float64(len(requests)), "%s", note)
	b.report.set("quiet.revisions", float64(after-before), "")
	b.report.set("quiet.bytes", float64(bytes)*day.Seconds()/took.Seconds()/1e6, "%d bytes", bytes)
	return nil
}

// calmDown waits until the hub's log has come to rest.
func (b *bench) calmDown() error {
	last, since := int64(0), time.Now()
	return eventually(b.ctx, "the hub's log to come to rest", func() error {
		now, err := b.revision()
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < b.size.calm {
			return fmt.Errorf("it moved %s ago", quiet.Round(time.Millisecond))
		}
		return nil
	})
}
