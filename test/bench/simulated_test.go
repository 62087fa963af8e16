package main

import (
	"context"
	"testing"

	"orrery.dev/orrery/test/protocol"
)

// TestSimulatedAgent shows that what the bench counts as an agent sends what an agent
// may, as far as it does what one does.
func TestSimulatedAgent(t *testing.T) {
	const once = "it has one session, at a location that has nothing when that begins"
	lacks := protocol.Lacks{
		"Begins": once, "Resumes": once, "KeepsWhatItHas": once, "Walks": once, "WalksInPages": once, "Compares": once,
		"AnotherLog": once, "Refusals": once, "Silence": once, "Replaced": once, "RetryAfter": once,
		"Halts": "it has no target to leave alone", "Announces": "it says nothing of itself",
		"ReportsAgain": "a report that is not taken fails the bench", "ReportsRefused": "a report that is not taken fails the bench",
		"NewerHub": "it is of the same build as its hub",
	}
	protocol.TestAgent(t, lacks, func(t *testing.T, judge func(*testing.T, *protocol.Hub, protocol.Agent)) {
		hub := protocol.NewHub("sim-0000")
		judge(t, hub, &oneSession{t: t, hub: hub})
	})
}

// oneSession is a simulated agent with a hub.
type oneSession struct {
	t    *testing.T
	hub  *protocol.Hub
	stop func()
}

func (o *oneSession) Start() {
	arrivals := make(chan arrival, 100)
	agent, err := newSimulated(o.hub.Start(o.t), arrivals, &answers{keys: map[int64]int{}})
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	connected, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- agent.run(ctx, connected) }()
	o.stop = func() {
		cancel()
		<-done // it was told to end
	}
	select {
	case <-connected:
	case err := <-done:
		o.t.Fatal(err)
	}
}

func (o *oneSession) Stop() { o.stop() }
